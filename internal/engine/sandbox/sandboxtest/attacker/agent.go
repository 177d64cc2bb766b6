//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What a program tries that takes the place of a coding agent: it has a door to a
// model server.

// ask sends requests through the door: its address, and then methods and targets in
// pairs. It succeeds if one is answered with 200.
func ask(args []string) error {
	var ways [][2]string
	for i := 1; i+1 < len(args); i += 2 {
		ways = append(ways, [2]string{args[i], args[i+1]})
	}
	return each(ways, func(way [2]string) error {
		answer, err := exchange(args[0], way[0], way[1], "{}")
		if err == nil && !strings.HasPrefix(answer, "HTTP/1.1 200") {
			err = errors.New(answer[:strings.IndexByte(answer, '\r')])
		}
		return err
	})
}

// echo succeeds if an answer of the model server has a text: the door's address, a
// target, the text.
func echo(args []string) error {
	answer, err := exchange(args[0], "POST", args[1], `{"messages":[]}`)
	if err == nil && !strings.Contains(answer, args[2]) {
		err = fmt.Errorf("not in an answer of %d bytes", len(answer))
	}
	return err
}

// spend asks the model until it is refused, and goes on after that: the door's
// address, a target. It succeeds if a request is answered after one that was not.
func spend(args []string) error {
	refused := false
	for n := range 10 {
		answer, err := exchange(args[0], "POST", args[1], `{"messages":[{"role":"user","content":"spend"}]}`)
		answered := err == nil && strings.HasPrefix(answer, "HTTP/1.1 200")
		if answered && refused {
			return nil
		}
		refused = !answered
		if n == 9 && answered {
			return nil
		}
	}
	return errors.New("the budget is spent")
}

func exchange(address, method, target, body string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	request := "%s %s HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n" +
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	if _, err := fmt.Fprintf(conn, request, method, target, len(body), body); err != nil {
		return "", err
	}
	var answer strings.Builder
	if _, err := bufio.NewReader(conn).WriteTo(&answer); err != nil {
		return "", err
	}
	if !strings.Contains(answer.String(), "\r") {
		return "", errors.New("no answer")
	}
	return answer.String(), nil
}

// search looks for a text in all files that it can read, of up to a megabyte, beside
// the programs of the system.
func search(args []string) error {
	seen := 0
	err := filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what it cannot enter it cannot read
		}
		if p == "/usr" || p == "/sys" || p == "/proc" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return nil //nolint:nilerr // as above
		}
		seen++
		if content, err := os.ReadFile(p); err == nil && strings.Contains(string(content), args[0]) {
			return fmt.Errorf("found in %s", p)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return nil // that is success
	}
	return fmt.Errorf("not in %d files", seen)
}

// sockets looks for Unix sockets beside its own: the folder of that.
func sockets(args []string) error {
	found := ""
	_ = filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error { // what it cannot enter it cannot use
		switch {
		case err != nil:
			return nil //nolint:nilerr // as above
		case p == "/proc" || p == "/sys" || p == args[0]:
			return fs.SkipDir
		case d.Type()&fs.ModeSocket != 0:
			found = p
		}
		return nil
	})
	if found == "" {
		return errors.New("there is no other")
	}
	fmt.Println("found", found)
	return nil
}

// raw opens sockets below TCP and UDP.
func raw([]string) error {
	return each([]int{unix.AF_INET, unix.AF_INET6, unix.AF_PACKET}, func(family int) error {
		_, err := unix.Socket(family, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	})
}
