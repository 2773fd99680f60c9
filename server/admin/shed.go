package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// shedName is the command of ZooKeeper 3.10 that closes connections, so that clients spread
// over the servers again. It is the one command that is asked for by POST: it is too easy to
// follow a link.
const shedName = "shed_connections"

// maxShedBody is more than anybody needs for {"percentage": 10}.
const maxShedBody = 1 << 10

// shed is shed_connections. ZooKeeper wants every permission on "/" for it; here the gate
// has decided who may.
func (h *handler) shed(w http.ResponseWriter, r *http.Request) {
	if fromElsewhere(r) {
		http.Error(w, "this command changes something: a page of another site may not ask for it", http.StatusForbidden)
		return
	}
	percent, err := percentage(http.MaxBytesReader(w, r.Body, maxShedBody))
	status, closed, problem := http.StatusOK, 0, ""
	switch {
	case err != nil:
		status, problem = http.StatusBadRequest, err.Error()
	case !h.commands.source.Serving():
		problem = notServing
	default:
		closed = h.commands.source.Shed(percent)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	o := newObject(w)
	if problem == "" {
		integer(o, "connections_shed", closed)
		integer(o, "percentage_requested", percent)
	}
	o.str("command", shedName)
	if problem == "" {
		o.null("error")
	} else {
		o.str("error", problem)
	}
	_ = o.finish() // the client is gone
}

var errPercentage = errors.New(`send {"percentage": N} with N from 0 to 100`)

func percentage(body io.Reader) (int, error) {
	var request struct {
		Percentage *int `json:"percentage"`
	}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if d.Decode(&request) != nil || request.Percentage == nil || *request.Percentage < 0 || *request.Percentage > 100 {
		return 0, errPercentage
	}
	return *request.Percentage, nil
}
