// Package approval decides which executions need a person's word, and takes that
// word: once, whoever gives it, however often.
//
// Policy is pure: no I/O, no clock, no state. Desk keeps questions, decisions and
// remembered choices in a Store; it knows of no bus beyond that.
//
// Guarantees:
//  1. Of the rule that matches first, the session's grant and its parents'
//     grants the strictest wins: deny, then ask, then allow.
//  2. A grant's "auto" replaces the configured default only; rules still stand.
//  3. Hints ease nothing unless the caller says that they come from a trusted
//     server.
//  4. An approval is decided once: the first decision that the store takes
//     stands, be it a person's, its expiry, or the stop of its call. Whoever
//     comes later is told what stands; the same choice by the same approver
//     again succeeds.
//  5. A decision is about the exact text of the arguments and the exact
//     definition that were shown. An approver who names another digest decides
//     nothing.
//  6. A choice is remembered before its approver hears that it was taken. It
//     covers one tool, definition and executor, for one session or for one
//     user; never another user's. A session's choice ends when the session gets
//     another user, and after SessionMemory. It lifts no deny: what is denied is
//     not asked for.
//  7. A forgotten choice does not come back, however late the decision that made
//     it is applied; only a later decision makes it again.
//
// Not promised: who may decide. That is a matter of who may publish on an
// approver's subject.
package approval
