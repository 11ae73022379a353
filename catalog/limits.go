package catalog

// Limits bound what Decode accepts. Zero fields mean the defaults.
type Limits struct {
	Tools             int // definitions in one array; what follows is left out. Default 50,000
	DefinitionBytes   int // one definition; a larger one is left out. Default 4 MiB
	Depth             int // nesting of objects and arrays in one definition; deeper ones are left out. Default 100
	NameChars         int // a longer name is left out. Default 256
	DescriptionChars  int // what tool_describe gives of a description. Default 100,000
	IndexedChars      int // what the index reads of a description. Default 65,536
	IndexedProperties int // parameter names that the index reads. Default 1,000
	Aliases           int // aliases of one definition; the rest is ignored. Default 32
	Warnings          int // warnings of one array; the last one counts the rest. Default 200
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		value    *int
		standard int
	}{
		{&l.Tools, 50_000},
		{&l.DefinitionBytes, 4 << 20},
		{&l.Depth, 100},
		{&l.NameChars, 256},
		{&l.DescriptionChars, 100_000},
		{&l.IndexedChars, 1 << 16},
		{&l.IndexedProperties, 1000},
		{&l.Aliases, 32},
		{&l.Warnings, 200},
	} {
		if *f.value <= 0 {
			*f.value = f.standard
		}
	}
	return l
}
