package acl

// A Ref names an access control list in a Table. Nodes hold a Ref instead of a list, since
// millions of nodes share a handful of lists.
type Ref uint32

// OpenRef is the Ref of Open in every Table. It is not counted, so that the most frequent
// list costs nothing.
const OpenRef Ref = 0
