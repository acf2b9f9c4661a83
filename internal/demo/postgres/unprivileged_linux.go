package postgres

import (
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// unprivileged runs fn as it is, or, for root, as the user nobody, since PostgreSQL refuses to run as root.
//
// On Linux credentials belong to the thread: what fn does itself and the processes that it starts are nobody's, the
// rest of this process keeps its own. The thread is never given back, so no other goroutine can meet it.
func unprivileged(fn func() error) error {
	if os.Geteuid() != 0 {
		return fn()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with this goroutine
		err := becomeNobody()
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

// becomeNobody changes this thread alone: package syscall's own Setuid would change them all.
func becomeNobody() error {
	uid, gid, err := nobody()
	if err != nil {
		return err
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("leave root's groups: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
		return fmt.Errorf("leave root's group: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return fmt.Errorf("become nobody: %w", errno)
	}
	return nil
}

func nobody() (uid, gid int, err error) {
	u, err := osuser.Lookup("nobody")
	if err != nil {
		return 0, 0, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	if uid, err = strconv.Atoi(u.Uid); err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	return uid, gid, err
}

// giveAway hands a directory to nobody when we are root, and makes sure that nobody gets there.
func giveAway(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("run by root, PostgreSQL becomes the user nobody, who may not pass %s", parent)
		}
		if parent == filepath.Dir(parent) {
			break
		}
	}
	uid, gid, err := nobody()
	if err != nil {
		return err
	}
	return os.Lchown(dir, uid, gid)
}

// cacheDir is the user's, except for root: nobody may not look into root's home.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/billing", nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "billing"), err
}
