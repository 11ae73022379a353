// Package config reads toolbridge.yaml.
//
// It reports every fault of a file at once, each with line, column and key, and
// for an unknown key the nearest known one. Keys under tools and nous keep the
// meaning that users of tool search know: a wrong value or an unknown key there
// is a warning and the default is used. Everywhere else, and at the top level,
// an unknown key or a wrong type is a fault that stops the program.
//
// Files are bounded: 256 KiB, 64 levels, 20,000 values after aliases are
// expanded. Of YAML 1.1 the words on, off, yes and no (also On, OFF, …) are
// booleans wherever a boolean may stand; quoted they are text. Numbers are kept
// as they are written.
package config
