// Package catalog holds everything about tool definitions that needs no I/O:
// reading them in five dialects, the configuration of tool search, what is
// deferred and what stays visible, the listing in its budget, the three bridge
// tools, and the answers of tool_search and tool_describe.
//
// # Guarantees
//
//  1. Every value is immutable once made and safe for concurrent use. A Catalog
//     builds its index once, on first use; one Catalog serves any number of
//     sessions.
//  2. Equal input gives equal bytes. Nothing depends on the order of a map, on
//     time or on chance; ties keep the order of the definitions.
//  3. A visible tool comes back with the bytes it came in, without Toolbridge's
//     own fields: key order, numbers, white space and escapes stay.
//  4. One bad definition never costs the others: it is left out or repaired,
//     and a Warning says which one, why, and what was done. Sizes, counts and
//     depths are bounded by Limits.
//  5. What reaches a prompt as a line of the listing is one line: no control
//     characters, bounded length, nothing that looks like a heading of ours.
//  6. Nothing here suggests, counts or names a tool outside the definitions that
//     a Catalog was made from.
//
// # Memory
//
// Decode shares the bytes it is given: names, descriptions, schemas and raw
// definitions are parts of them wherever no escape had to be undone. Those who
// call Decode leave the bytes alone afterwards.
//
// # Not here
//
// Which definitions a session may see at all is decided by the caller, before
// it makes a Catalog. Text analysis and ranking are package index; the arguments
// of a tool call are package arguments.
package catalog
