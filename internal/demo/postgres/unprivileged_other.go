//go:build !linux

package postgres

import (
	"errors"
	"os"
	"path/filepath"
)

// unprivileged runs fn as it is. Only on Linux can one thread leave root behind; elsewhere PostgreSQL itself refuses.
func unprivileged(fn func() error) error {
	if os.Geteuid() == 0 {
		return errors.New("PostgreSQL does not run as root")
	}
	return fn()
}

func giveAway(string) error { return nil }

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "billing"), err
}
