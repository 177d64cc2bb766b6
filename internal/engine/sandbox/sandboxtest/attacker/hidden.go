//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hidden takes memory that the kernel holds and that no process's RSS contains:
// way, bytes, processes. The processes share the amount. It is denied if they
// cannot have all of it.
func hidden(args []string) error {
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	for range count {
		_, err := syscall.ForkExec(os.Args[0], []string{"attacker", "hide", args[0], strconv.Itoa(most / count)}, &syscall.ProcAttr{
			Files: []uintptr{0, 1, 2, w.Fd()},
		})
		if err != nil {
			return err
		}
	}
	taken := 0
	for range count {
		var part [8]byte
		if _, err := r.Read(part[:]); err != nil {
			return err
		}
		taken += int(*(*uint64)(unsafe.Pointer(&part)))
	}
	fmt.Printf("%d of %d MiB by %s\n", taken>>20, most>>20, args[0])
	// Leave the monitor time to see it.
	time.Sleep(time.Second)
	if taken < most/count*count {
		return fmt.Errorf("%d MiB are all there is", taken>>20)
	}
	return forever()
}

// hide takes its share of the memory, prints how much it has, and keeps it.
func hide(args []string) error {
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ways := map[string]func(int) (int, error){
		"stream":   func(most int) (int, error) { return fillSockets(most, unix.SOCK_STREAM, 0) },
		"datagram": func(most int) (int, error) { return fillSockets(most, unix.SOCK_DGRAM, 0) },
		"large":    func(most int) (int, error) { return fillSockets(most, unix.SOCK_DGRAM, 64<<20) },
		"netlink":  fillNetlink,
		"answers":  fillAnswers,
		"tcp":      fillTCP,
		"udp":      fillUDP,
		"pipes":    fillPipes,
		"spliced":  splicePages,
		"sysv":     sysvMessages,
		"posix":    posixMessages,
		"sets":     semaphores,
		"tables":   pageTables,
		"dropped":  dropShared,
	}
	time.Sleep(time.Millisecond) // Go needs files of its own to sleep, and there will be none left
	taken, err := ways[args[0]](most)
	fmt.Println(args[0], taken>>20, "MiB:", err)
	part := uint64(taken)
	if _, err := os.NewFile(3, "taken").Write((*[8]byte)(unsafe.Pointer(&part))[:]); err != nil {
		return err
	}
	return forever()
}

// block is what is written at once.
var block = make([]byte, 16<<10)

// until writes to fd until it is full. It returns the number of bytes.
func until(fd, most int) (taken int) {
	for taken < most {
		n, err := unix.Write(fd, block)
		if err != nil {
			return taken
		}
		taken += n
	}
	return taken
}

// fillSockets writes to both ends of socket pairs without reading. With a size
// it asks for larger buffers first.
func fillSockets(most, kind, size int) (taken int, err error) {
	for taken < most {
		pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return taken, err
		}
		for _, fd := range pair {
			if size > 0 {
				_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size)
			}
			taken += until(fd, most-taken)
		}
	}
	return taken, nil
}

// fillNetlink sends messages from one netlink socket to others.
func fillNetlink(most int) (taken int, err error) {
	for taken < most {
		from, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.NETLINK_USERSOCK)
		if err != nil {
			return taken, err
		}
		if err := unix.Bind(from, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return taken, err
		}
		name, err := unix.Getsockname(from)
		if err != nil {
			return taken, err
		}
		before := taken
		for taken < most && unix.Sendto(from, block, 0, name) == nil {
			taken += len(block)
		}
		if taken == before {
			return taken, errors.New("it takes nothing")
		}
	}
	return taken, nil
}

// fillAnswers asks the kernel about interfaces, and does not read the responses.
func fillAnswers(most int) (taken int, err error) {
	question := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	*(*unix.NlMsghdr)(unsafe.Pointer(&question[0])) = unix.NlMsghdr{
		Len: uint32(len(question)), Type: unix.RTM_GETLINK, Flags: unix.NLM_F_REQUEST,
	}
	(*unix.IfInfomsg)(unsafe.Pointer(&question[unix.SizeofNlMsghdr])).Index = 1
	for taken < most {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		if err != nil {
			return taken, err
		}
		for range 200 {
			if err := unix.Sendto(fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
				break
			}
		}
		held, err := queued(fd)
		if err != nil {
			return taken, err
		}
		taken += held
	}
	return taken, nil
}

// queued is the size of a socket's receive queue, as the kernel counts.
func queued(fd int) (int, error) {
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	if info[0] == 0 {
		return 0, errors.New("it takes nothing")
	}
	return int(info[0]), nil
}

// fillUDP lets sockets send to themselves without reading.
func fillUDP(most int) (taken int, err error) {
	for taken < most {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return taken, err
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return taken, err
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return taken, err
		}
		for range 100 {
			if err := unix.Sendto(fd, block, 0, name); err != nil {
				break
			}
		}
		held, err := queued(fd)
		if err != nil {
			return taken, err
		}
		taken += held
	}
	return taken, nil
}

// fillTCP opens TCP connections to itself without reading.
func fillTCP(most int) (taken int, err error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Listen(listener, 1); err != nil {
		return 0, err
	}
	name, err := unix.Getsockname(listener)
	if err != nil {
		return 0, err
	}
	name.(*unix.SockaddrInet4).Addr = [4]byte{127, 0, 0, 1}
	for taken < most {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return taken, err
		}
		if err := unix.Connect(fd, name); err != nil {
			return taken, err
		}
		if _, _, err := unix.Accept(listener); err != nil {
			return taken, err
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return taken, err
		}
		taken += until(fd, most-taken)
	}
	return taken, nil
}

func fillPipes(most int) (taken int, err error) {
	for taken < most {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK); err != nil {
			return taken, err
		}
		_, _ = unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, 1<<20)
		taken += until(pipe[1], most-taken)
	}
	return taken, nil
}

// splicePages fills pipes with huge pages that it then unmaps: a pipe with one
// byte of a page keeps all of it.
func splicePages(most int) (taken int, err error) {
	const large = 2 << 20
	for taken < most {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK); err != nil {
			return taken, err
		}
		for range 16 {
			part, err := unix.Mmap(-1, 0, 2*large, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return taken, err
			}
			_ = unix.Madvise(part, unix.MADV_HUGEPAGE)
			for i := 0; i < len(part); i += 4096 {
				part[i] = 1
			}
			iov := unix.Iovec{Base: &part[large]}
			iov.SetLen(1)
			_, _, errno := unix.Syscall6(unix.SYS_VMSPLICE, uintptr(pipe[1]), uintptr(unsafe.Pointer(&iov)), 1,
				unix.SPLICE_F_NONBLOCK, 0, 0)
			if err := unix.Munmap(part); err != nil {
				return taken, err
			}
			if errno != 0 {
				return taken, errno
			}
			taken += large
		}
	}
	return taken, nil
}

// sysvMessages leaves messages in queues.
func sysvMessages(most int) (taken int, err error) {
	message := struct {
		kind int
		text [8192]byte
	}{kind: 1}
	for taken < most {
		queue, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, 0o600, 0)
		if errno != 0 {
			return taken, errno
		}
		for errno == 0 {
			_, _, errno = unix.Syscall6(unix.SYS_MSGSND, queue, uintptr(unsafe.Pointer(&message)),
				uintptr(len(message.text)), unix.IPC_NOWAIT, 0, 0)
			if errno == 0 {
				taken += len(message.text)
			}
		}
	}
	return taken, nil
}

func posixMessages(most int) (taken int, err error) {
	for i := 0; taken < most; i++ {
		name, err := unix.BytePtrFromString(fmt.Sprint("hidden", i))
		if err != nil {
			return taken, err
		}
		queue, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)),
			unix.O_CREAT|unix.O_RDWR|unix.O_NONBLOCK, 0o600, 0, 0, 0)
		if errno != 0 {
			return taken, errno
		}
		for errno == 0 {
			_, _, errno = unix.Syscall6(unix.SYS_MQ_TIMEDSEND, queue, uintptr(unsafe.Pointer(&block[0])), 8192, 0, 0, 0)
			if errno == 0 {
				taken += 8192
			}
		}
	}
	return taken, nil
}

// semaphores makes large sets, of 64 bytes for each semaphore.
func semaphores(most int) (taken int, err error) {
	const count = 32_000
	for taken < most {
		if _, _, errno := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, count, 0o600); errno != 0 {
			return taken, errno
		}
		taken += 64 * count
	}
	return taken, nil
}

// pageTables makes the kernel fill page tables: it maps the zero page all over a
// large mapping.
func pageTables(most int) (taken int, err error) {
	const page, covers = 4 << 10, 2 << 20
	for taken < most {
		const size = 1 << 30
		part, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return taken, err
		}
		_ = unix.Madvise(part, unix.MADV_NOHUGEPAGE)
		sum := byte(0)
		for i := 0; i < size; i += covers {
			sum += part[i]
		}
		taken += size/covers*page + int(sum)
	}
	return taken, nil
}

// dropShared fills shared memory and drops it from its RSS. It stays allocated as
// long as the mapping exists.
func dropShared(most int) (taken int, err error) {
	for taken < most {
		part, err := unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		if err != nil {
			return taken, err
		}
		for i := 0; i < len(part); i += 4096 {
			part[i] = 1
		}
		if err := unix.Madvise(part, unix.MADV_DONTNEED); err != nil {
			return taken, err
		}
		taken += chunk
	}
	return taken, nil
}
