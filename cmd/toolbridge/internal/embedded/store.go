package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// DefaultStore is the user's own folder for the data of toolbridge dev:
// $XDG_STATE_HOME/toolbridge/dev or ~/.local/state/toolbridge/dev on Unix, below
// the user's configuration folder elsewhere. lookup is os.LookupEnv.
func DefaultStore(lookup func(string) (string, bool)) (string, error) {
	const name = "dev"
	if dir, _ := lookup("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toolbridge", name), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", errors.New("no folder of the user's own is known: choose one with --store")
		}
		return filepath.Join(dir, "toolbridge", name), nil
	}
	home, _ := lookup("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("HOME is not set: choose a folder with --store")
	}
	return filepath.Join(home, ".local", "state", "toolbridge", name), nil
}
