// Package crash has the tests of everything that zkd writes to disk, on the simulated disk
// of package disk: the power fails before every single operation that changes something,
// in as many ways as there are seeds, and what was acknowledged must be there afterwards,
// nothing that was never written, and never an older state in silence.
//
// There is no code here besides tests.
package crash
