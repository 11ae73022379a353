// Package arguments turns what a model wrote into a tool_call into arguments
// that tools can be sent, or into an answer that the model can act on. It knows
// JSON and JSON Schema, and nothing of tools, sessions or the bus.
//
// The way of a call: [Normalize] reads the envelope into entries or refuses it
// whole. For each entry the caller finds the tool and its [Schema], which was
// compiled once; [Schema.Adopt] decides on parameters that stood in the wrong
// place, and [Schema.Repair] makes the arguments valid or says what is wrong.
//
// # What is guaranteed
//
//  1. Nothing that the model said is dropped in silence. A member that has no
//     place is adopted as a parameter or refused. The only values that are left
//     out are null and "" for an optional property that can not take them.
//  2. Arguments that are valid are dispatched byte for byte as they were
//     written; repaired arguments keep every other byte and the order of
//     members. Numbers never pass through a float: every digit survives.
//  3. What Repair returns is valid against everything of the schema that is
//     enforced, except as 6 says, and repairing it again changes nothing.
//  4. Duplicate members, truncated text, NaN, Infinity and numbers out of range
//     are refused with their place, so that whoever approves arguments and
//     whoever receives them read the same.
//  5. A schema costs at most its own validation: one that is invalid, leads
//     nowhere or is too large takes any arguments that have its top-level
//     required parameters. A pattern that Go's engine can not match is not
//     enforced, and nothing beside it is lost. [Schema.Notes] says what is not
//     enforced. Nothing is ever fetched.
//  6. Work is bounded in time and memory whatever the schema and the arguments
//     are. Sizes, depths and counts are limited; and before the validator is
//     asked, its walk is made without the work and counted: a question that
//     would take more than 100,000 steps, some tenths of a second, is not put.
//     If the arguments are small the schema is at fault, and they pass; large
//     arguments (over 2,000 values or 64 KiB) are refused.
//  7. The same input gives the same answer, every time.
//
// # What is not
//
// format and content keywords are descriptions and not asserted. Patterns are
// read as ECMAScript; look-around, back references and classes that languages
// read differently are not enforced. Text is turned into a value only where the
// schema can not take the text; enum and const are never matched loosely.
//
// # Numbers for a worker
//
// [Refusal.Key] and [Entry.Key] are equal for equal inputs; the number of equal
// refusals in a row, counted by the worker, chooses the answer:
// [Refusal.Wording], [Invalid.Wording].
//
// Everything here is pure and safe for concurrent use.
package arguments
