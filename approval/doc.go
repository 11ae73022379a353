// Package approval decides which executions need a person's word.
//
// Guarantees:
//  1. Of the rule that matches first, the session's grant and its parents'
//     grants the strictest wins: deny, then ask, then allow.
//  2. A grant's "auto" replaces the configured default only; rules still stand.
//  3. Hints ease nothing unless the caller says that they come from a trusted
//     server.
//
// It is pure: no I/O, no clock, no state.
package approval
