//go:build linux

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func read(paths []string) error {
	return each(paths, func(p string) error {
		if entries, err := os.ReadDir(p); err == nil && len(entries) > 0 {
			return nil
		}
		_, err := os.ReadFile(p)
		return err
	})
}

// secrets searches for a text, given in hex, in the environment, the arguments and
// the open files of all processes, and in all keys. It is denied if it could read some and
// found none.
func secrets(args []string) error {
	text, err := hex.DecodeString(args[0])
	if err != nil {
		return err
	}
	var files []string
	for _, pattern := range []string{"environ", "cmdline", "task/*/environ", "fd/*"} {
		found, _ := filepath.Glob("/proc/[0-9]*/" + pattern) // the pattern is good
		files = append(files, found...)
	}
	environments := 0
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue // a pipe may block
		}
		content, err := os.ReadFile(file)
		if err == nil && bytes.Contains(content, text) {
			fmt.Println("found in", file)
			return nil
		}
		if err == nil && path.Base(file) == "environ" {
			environments++
		}
	}
	if inKeyrings(text) {
		return nil
	}
	if environments == 0 {
		fmt.Println("no environment can be read")
		return nil
	}
	return fmt.Errorf("it is not in %d environments", environments)
}

func write(paths []string) error {
	return each(paths, func(p string) error {
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("1")
		return err
	})
}

// grow makes one file larger than allowed, in two ways: dir, limit.
func grow(args []string) error {
	limit, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(args[0], "large"))
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Truncate(10<<30) == nil {
		return nil
	}
	block := make([]byte, 1<<20)
	for written := int64(0); written <= limit; written += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// many writes megabytes to files of their own until there are too many: dir, count.
func many(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range count {
		if err := os.WriteFile(filepath.Join(args[0], fmt.Sprint(i)), make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
	}
	return forever()
}

// nest nests folders, and removes the permission to enter them.
func nest(args []string) error {
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	for range 3000 {
		if err := os.Mkdir("d", 0o700); err != nil {
			return err
		}
		if err := os.Chdir("d"); err != nil {
			return err
		}
	}
	if err := os.WriteFile("f", []byte("x"), 0); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(args[0], "d"), 0); err != nil {
		return err
	}
	return fmt.Errorf("nobody minds yet")
}

// closed fills folders and removes the permission to read them: dir, megabytes.
func closed(args []string) error {
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	inner := filepath.Join(args[0], "closed")
	if err := os.Mkdir(inner, 0o700); err != nil {
		return err
	}
	for i := range most {
		if err := os.WriteFile(filepath.Join(inner, fmt.Sprint(i)), make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
	}
	for _, dir := range []string{inner, args[0]} {
		if err := os.Chmod(dir, 0); err != nil {
			return err
		}
	}
	return forever()
}

// link plants links to a path outside: dir, path.
func link(args []string) error {
	for _, name := range []string{"reward.txt", "folder"} {
		if err := os.Symlink(args[1], filepath.Join(args[0], name)); err != nil {
			return err
		}
	}
	if err := os.Link(args[1], filepath.Join(args[0], "hard")); err == nil {
		return nil
	}
	_, err := os.ReadFile(args[1])
	return err
}

func mount([]string) error {
	return each([]string{"proc", "tmpfs", "sysfs", "bind", "remount", "unmount", "chroot"}, func(kind string) error {
		switch kind {
		case "bind":
			return unix.Mount("/usr", "/tmp", "", unix.MS_BIND, "")
		case "remount":
			return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")
		case "unmount":
			return unix.Unmount("/tmp", unix.MNT_DETACH)
		case "chroot":
			return unix.Chroot("/tmp")
		}
		return unix.Mount(kind, "/tmp", kind, 0, "")
	})
}

// openFiles succeeds if it inherited more than its three streams.
func openFiles([]string) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		// The listing itself is open, and the epoll file of the Go runtime.
		if n, _ := strconv.Atoi(e.Name()); n <= 2 || err != nil || strings.HasPrefix(target, "anon_inode:") ||
			strings.HasPrefix(target, "/proc/") {
			continue
		}
		fmt.Println("open:", target)
		return nil
	}
	return fmt.Errorf("%d open", len(entries))
}

// terminal opens a terminal and injects input into it.
func terminal([]string) error {
	return each([]string{"open", "type"}, func(way string) error {
		if way == "type" {
			return unix.IoctlSetPointerInt(0, unix.TIOCSTI, 'x')
		}
		f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// devices creates device files, and opens those of the machine.
func devices([]string) error {
	for _, mode := range []uint32{syscall.S_IFBLK, syscall.S_IFCHR} {
		if unix.Mknod("/tmp/device", mode|0o600, int(unix.Mkdev(1, 1))) == nil {
			return nil
		}
	}
	ways := []string{
		"/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun",
		"/dev/vsock", "/dev/vda", "/dev/sda", "/dev/disk", "/dev/loop0",
	}
	return each(ways, func(p string) error {
		_, err := os.Stat(p)
		return err
	})
}
