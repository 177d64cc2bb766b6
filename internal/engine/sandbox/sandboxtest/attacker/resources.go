//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fork starts processes until that fails or the cap is reached: limit, cap, marker.
// It succeeds if there are more than the limit at once.
func fork(args []string) error {
	limit, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	started := 0
	for ; started < most && err == nil; started++ {
		_, err = syscall.ForkExec("/bin/sleep", []string{"sleep", args[2]}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	}
	if started <= limit {
		return fmt.Errorf("process %d: %w", started, err)
	}
	return nil
}

const chunk = 4 << 20

// reserve asks for 10 GB, and uses none of it.
func reserve([]string) error {
	_, err := unix.Mmap(-1, 0, 10<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return err
}

// memory takes more than it may, up to a cap: bytes.
func memory(args []string) error {
	return take(args[0], func() ([]byte, error) {
		return unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	})
}

// sharedMemory takes shared memory: bytes.
func sharedMemory(args []string) error {
	return take(args[0], func() ([]byte, error) {
		return unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	})
}

// take keeps all memory that get returns, and writes to it.
func take(amount string, get func() ([]byte, error)) error {
	most, err := strconv.Atoi(amount)
	if err != nil {
		return err
	}
	for taken := 0; taken < most; taken += chunk {
		part, err := get()
		if err != nil {
			return err
		}
		for i := 0; i < len(part); i += 4096 {
			part[i] = 1
		}
	}
	return forever()
}

// children takes memory in several processes: count, bytes each.
func children(args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range count {
		_, err := syscall.ForkExec(os.Args[0], []string{"attacker", "memory", args[1]}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			return err
		}
	}
	return forever()
}

// memfd takes memory that no process has mapped: bytes.
func memfd(args []string) error {
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return each([]string{"memfd", "secret", "shmget"}, func(way string) error {
		switch way {
		case "secret":
			_, err := unix.MemfdSecret(0)
			return err
		case "shmget":
			_, err := unix.SysvShmGet(unix.IPC_PRIVATE, most, 0o600)
			return err
		}
		fd, err := unix.MemfdCreate("hidden", 0)
		if err != nil {
			return err
		}
		for written := 0; written < most; written += chunk {
			if _, err := unix.Write(fd, make([]byte, chunk)); err != nil {
				return err
			}
		}
		return nil
	})
}

// priority lowers oom_score_adj, so that the OOM killer picks others first.
func priority([]string) error {
	return each([]string{"-1000", "0", "500"}, func(score string) error {
		return os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0o600)
	})
}

// fill writes to tmpfs folders: bytes, folders...
func fill(args []string) error {
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return each(args[1:], func(dir string) error {
		for i := 0; i < most/(1<<20); i++ {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("fill", i)), make([]byte, 1<<20), 0o600); err != nil {
				return err
			}
		}
		return nil
	})
}

// spin uses the processor in two processes that each stay below the limit. With
// an argument they ignore SIGTERM.
func spin(args []string) error {
	for range 2 {
		argv := append([]string{"attacker", "burn"}, args...)
		_, err := syscall.ForkExec(os.Args[0], argv, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			return err
		}
	}
	if len(args) > 0 {
		return stay(nil)
	}
	return forever()
}

func burn(args []string) error {
	if len(args) > 0 {
		signal.Ignore(unix.SIGTERM)
	}
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		continue
	}
	return nil
}

// stay ignores all signals.
func stay([]string) error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	fmt.Println("staying")
	return forever()
}

// daemon leaves a process behind that holds a lock: file, marker. It waits
// until the process has it.
func daemon(args []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	_, err = syscall.ForkExec(os.Args[0], append([]string{"attacker", "hold"}, args...), &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, w.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		return err
	}
	return errors.New("left behind; the test looks whether it lives")
}

func hold(args []string) error {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP)
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.NewFile(3, "ready").Write([]byte("x")); err != nil {
		return err
	}
	return forever()
}

// killOthers signals a process of the test: pid. It signals all processes only if
// its own low PID shows that it is in a PID namespace.
func killOthers(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	_ = unix.Kill(pid, unix.SIGKILL) // the test checks whether it is alive
	if os.Getpid() < 20 {
		_ = unix.Kill(1, unix.SIGKILL)
		_ = unix.Kill(-1, unix.SIGTERM)
	}
	return errors.New("signals sent; the test looks who lives")
}
