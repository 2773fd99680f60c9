package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The texts of one value. Each returned error says what is wrong and what is allowed, and
// is put behind file, line and key.

// parseInteger reads a decimal number, or a hexadecimal one with 0x. Leading zeros are
// refused: Java reads 010 as 10 in some keys and as 8 in others.
func parseInteger(text string, low, high int64) (int64, error) {
	digits, sign := text, ""
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		sign, digits = digits[:1], digits[1:]
	}
	base, allowed := 10, "a whole number, "+rangeText(low, high)
	switch {
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		base, digits = 16, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		return 0, fmt.Errorf("%q has a leading zero, which Java takes for octal in some keys; allowed: %s", text, allowed)
	}
	if strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, "-") { // a second sign
		return 0, fmt.Errorf("%q is not a number; allowed: %s", text, allowed)
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number; allowed: %s", text, allowed)
	}
	if n < low || n > high {
		return 0, fmt.Errorf("%s is out of range; allowed: %s", text, allowed)
	}
	return n, nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false; allowed: true or false", text)
}

// parseInterval is ZooKeeper's Time.parseTimeInterval, in milliseconds: a number with ms, s,
// m, h or d behind it, in upper or lower case. Without one the number is in units.
func parseInterval(text string, unitMs int64) (int64, error) {
	number := strings.TrimRight(strings.ToLower(text), "msdh")
	switch strings.ToLower(text[len(number):]) {
	case "":
	case "ms":
		unitMs = 1
	case "s":
		unitMs = 1000
	case "m":
		unitMs = 60 * 1000
	case "h":
		unitMs = 3600 * 1000
	case "d":
		unitMs = 24 * 3600 * 1000
	default:
		return 0, fmt.Errorf("%q has an unknown unit; allowed: a number and ms, s, m, h or d", text)
	}
	n, err := parseInteger(number, 0, math.MaxInt32)
	if err != nil {
		return 0, fmt.Errorf("%q is not an interval; allowed: a whole number, 0 or more, and ms, s, m, h or d behind it", text)
	}
	return n * unitMs, nil
}

// parseEnum finds text among the allowed values, letter case included.
func parseEnum(text string, allowed []string) error {
	for _, a := range allowed {
		if text == a {
			return nil
		}
	}
	return fmt.Errorf("%q is unknown; allowed: %s", text, alternatives(allowed))
}

// alternatives is "a", "a or b", "a, b or c".
func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// splitList cuts at commas and drops blanks and empty parts.
func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
