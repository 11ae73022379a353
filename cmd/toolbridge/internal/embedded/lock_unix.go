//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the file for this process alone, or fails with errLocked.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
