package netem

// Shapes of partitions, as functions over a Table. Servers are numbered from 1.

// Part blocks everything between the hosts of the two groups, in both directions.
func (t *Table) Part(a, b []int) {
	for _, x := range a {
		for _, y := range b {
			t.OneWay(x, y)
			t.OneWay(y, x)
		}
	}
}

// OneWay blocks what src sends to dst; the other direction stays as it is.
func (t *Table) OneWay(src, dst int) {
	if src != dst {
		l, _ := t.Get(src, dst)
		l.Blocked = true
		t.Set(src, dst, l)
	}
}
