package check

import "github.com/zkd-project/zkd/jepsen/history"

// Broken checks what the test client itself has noticed: replies out of order or to nobody,
// frames that do not decode, and zxids that fall within a session.
func Broken(ops []history.Op) Result {
	r := Result{Checker: "frames"}
	for i := range ops {
		o := &ops[i]
		if o.Kind == history.Info && o.F == "broken" {
			r.add([]history.Op{*o}, "%s", o.Note)
			continue
		}
		if o.Kind == history.OK || o.Kind == history.Event {
			r.Checked++
		}
	}
	return r
}

// Sessions checks that no session was refused as over while a server must still have known
// it to be alive: its client says when the newest request that was answered had been sent, and
// the timeout runs from then at the earliest.
func Sessions(ops []history.Op) Result {
	r := Result{Checker: "sessions"}
	expired := 0
	for i := range ops {
		o := &ops[i]
		if o.Kind != history.Info {
			continue
		}
		switch o.F {
		case "new", "attached":
			r.Checked++
		case "expired":
			r.Checked++
			expired++
			// Begin is when its newest answered request was sent, Arg its timeout.
			if o.End < o.Begin+o.Arg {
				r.add([]history.Op{*o}, "a session was over %.3f s after a sign of life that was answered; its timeout is %.3f s",
					float64(o.End-o.Begin)/1e9, float64(o.Arg)/1e9)
			}
		}
	}
	r.figure("sessions expired", float64(expired))
	return r
}
