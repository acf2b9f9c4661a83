package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// tryLock takes a lock that ends with this process, however it ends.
func tryLock(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the PostgreSQL server: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s, another process works there: %w", path, err), file.Close())
	}
	return file, nil
}

// waitLock waits its turn.
func waitLock(ctx context.Context, path string) (io.Closer, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := tryLock(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}
