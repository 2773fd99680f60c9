package disk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// imageBytes has room for two segments of the log, snapshots, and a state store.
	imageBytes = 512 << 20
	// shutdownRequest is EXT4_IOC_SHUTDOWN, and noLogFlush its flag for the loss of all that
	// is not on the device.
	shutdownRequest = 0x8004587d
	noLogFlush      = 2
)

// An Image is a mounted file system in a file.
type Image struct {
	file, at string
	mounted  bool
}

// Unavailable says why there can be no Image on this machine; "" if there can.
func Unavailable() string {
	if os.Geteuid() != 0 {
		return "file systems of one's own need root"
	}
	for _, tool := range []string{"mkfs.ext4", "e2fsck", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "file systems of one's own need the program " + tool
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "there are no loop devices"
	}
	return ""
}

// CannotAbort says why no Image can be aborted here; "" if that may be.
func CannotAbort() string {
	if err := unix.Access("/sys/fs/ext4", unix.W_OK); err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: none is mounted yet
		return fmt.Sprintf("/sys/fs/ext4 cannot be written to: %v", err)
	}
	return ""
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// New makes a file system in dir and mounts it.
func New(dir string) (*Image, error) {
	i := &Image{file: filepath.Join(dir, "disk.img"), at: filepath.Join(dir, "disk")}
	if err := os.MkdirAll(i.at, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(i.file)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(imageBytes), f.Close()); err != nil {
		return nil, err
	}
	if err := run("mkfs.ext4", "-q", "-m", "0", i.file); err != nil {
		return nil, err
	}
	return i, i.mount()
}

func (i *Image) mount() error {
	if err := run("mount", "-o", "loop,errors=remount-ro", i.file, i.at); err != nil {
		return err
	}
	i.mounted = true
	return nil
}

// Dir is the folder on it.
func (i *Image) Dir() string { return i.at }

// PowerCut loses what was not synced. No process may have a file of it open.
func (i *Image) PowerCut() error {
	d, err := os.Open(i.at)
	if err != nil {
		return err
	}
	flag := uint32(noLogFlush)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, d.Fd(), shutdownRequest, uintptr(unsafe.Pointer(&flag)))
	if err := d.Close(); err != nil {
		return err
	}
	if e != 0 {
		return fmt.Errorf("the file system cannot lose power: %w", e)
	}
	if err := i.unmount(); err != nil {
		return err
	}
	return i.mount()
}

// Abort has the file system find an error in itself: from then on it is read-only, and what was not synced
// never will be.
func (i *Image) Abort() error {
	devices, err := i.devices()
	if err != nil {
		return err
	}
	for _, name := range devices {
		err = errors.Join(err, os.WriteFile(filepath.Join("/sys/fs/ext4", name, "trigger_fs_error"), []byte("jepsen"), 0o200))
	}
	if len(devices) != 1 {
		err = errors.Join(err, fmt.Errorf("%s is on the loop devices %v, which should be one", i.file, devices))
	}
	return err
}

// Mend checks and repairs the file system, as an operator does after Abort. No process may have a file of it
// open.
func (i *Image) Mend() error {
	if err := i.unmount(); err != nil {
		return err
	}
	const repaired = 1 // of e2fsck's exit codes
	err := run("e2fsck", "-f", "-y", i.file)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == repaired {
		err = nil
	}
	if err != nil {
		return err
	}
	return i.mount()
}

// Fill leaves no room.
func (i *Image) Fill() error {
	f, err := os.OpenFile(i.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	end := int64(0)
	for step := int64(64 << 20); step >= 4096; {
		if err := unix.Fallocate(int(f.Fd()), 0, end, step); err != nil {
			step /= 2
			continue
		}
		end += step
	}
	return nil
}

// Empty takes back what Fill has done.
func (i *Image) Empty() error {
	if err := os.Remove(i.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (i *Image) ballast() string { return filepath.Join(i.at, "ballast") }

func (i *Image) unmount() error {
	if !i.mounted {
		return nil
	}
	if err := run("umount", i.at); err != nil {
		return err
	}
	i.mounted = false
	return i.awaitDetached()
}

// awaitDetached waits until no loop device has the file any more: the kernel lets go of it some time
// after the unmount, and what is mounted from it before then can show an older state.
func (i *Image) awaitDetached() error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		devices, err := i.devices()
		if err != nil || len(devices) == 0 {
			return err
		}
		if time.Since(began) > 30*time.Second {
			return fmt.Errorf("%s is unmounted, and a loop device still has it after 30 s", i.file)
		}
	}
}

// devices are the loop devices that have the file.
func (i *Image) devices() (names []string, err error) {
	file, err := filepath.EvalSymlinks(i.file)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return nil, err
	}
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		b, err := os.ReadFile(d) // gone is as good as another one
		if err == nil && strings.TrimSuffix(string(b), "\n") == file {
			names = append(names, strings.Split(d, "/")[3])
		}
	}
	return names, nil
}

// Close unmounts it; the file is left.
func (i *Image) Close() error { return i.unmount() }

// Remove deletes the file.
func (i *Image) Remove() error { return os.Remove(i.file) }
