// Package embedded is the NATS server inside toolbridge dev: JetStream on disk
// in one folder that only one process uses at a time, listening on the loopback
// address only, without users or passwords.
package embedded
