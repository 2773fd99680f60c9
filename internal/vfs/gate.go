package vfs

// A Gate is a lock for those who hold it while they write or sync. Who waits for it waits on a
// channel, so that virtual time (testing/synctest) goes on meanwhile: with a sync.Mutex a disk
// that is slow in a simulation would stop the clock that ends its slowness.
type Gate struct {
	held chan struct{} // has an element while the gate is closed
}

// NewGate returns an open gate. The zero Gate cannot be used.
func NewGate() Gate { return Gate{make(chan struct{}, 1)} }

// Lock waits until the gate is open and closes it.
func (g Gate) Lock() { g.held <- struct{}{} }

// Unlock opens the gate. It panics if the gate is open.
func (g Gate) Unlock() {
	select {
	case <-g.held:
	default:
		panic("vfs: a gate is opened that nobody has closed")
	}
}
