//go:build !linux

package nemesis

import "errors"

const onlyLinux = "limits of processes are set only on Linux"

func noGroup(string) func() string { return noLimits }

func noLimits() string { return onlyLinux }

type limit struct{}

func cpuLimit(int) limit { return limit{} }

func memoryLimit(int64) limit { return limit{} }

func inGroup(string, int, int, limit) (func() error, error) { return nil, errors.New(onlyLinux) }

func resident(int) (int64, error) { return 0, errors.New(onlyLinux) }

func limitFiles(int, int) (func() error, error) { return nil, errors.New(onlyLinux) }
