//go:build !windows

package main

import (
	"os"
	"os/signal"
	"syscall"
)

func notifyHangUp(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
