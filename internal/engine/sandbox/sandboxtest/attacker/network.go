//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects to listeners of the test: network, address, network, address...
func dial(args []string) error {
	var ways [][2]string
	for i := 0; i+1 < len(args); i += 2 {
		ways = append(ways, [2]string{args[i], args[i+1]})
	}
	return each(ways, func(way [2]string) error {
		conn, err := net.DialTimeout(way[0], way[1], time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("hello from the sandbox"))
		if err == nil && way[0] == "udp" {
			return errors.New("sent, which says nothing: the test listens")
		}
		return err
	})
}

func interfaces([]string) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			fmt.Println("found", i.Name)
			return nil
		}
	}
	return fmt.Errorf("%d interfaces, all loopback", len(all))
}

// vsock opens a socket to the hypervisor of a virtual machine, and sends nothing.
func vsock([]string) error {
	_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	return err
}
