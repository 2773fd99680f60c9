// Package netem is the network between the servers of a test, and between them and clients,
// with the faults that networks have.
//
// Both of its networks are ruled by one Table: for every ordered pair of hosts, what happens
// to what the one sends to the other. Proxy carries TCP connections on the loopback device:
// it can hold bytes back, delay them, let only so many pass in a second and reset connections,
// in each direction by itself. Switch carries IP packets between network namespaces, each with a
// TUN device: it can also lose, double and reorder them, and connections that are opened vanish
// as they do on a broken cable.
//
// Host 0 is where the clients are; servers have their numbers.
package netem
