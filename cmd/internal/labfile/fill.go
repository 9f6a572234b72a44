package labfile

import "strings"

// FillIn puts the address of a host for its name in braces: {h1} is that of the first port of h1,
// and {h1:eth2} that of another one. Other words in braces stay, and so do the shell's variables,
// as ${h1}.
func (l *Lab) FillIn(text string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			break
		}
		end := strings.IndexByte(text[open:], '}')
		if end < 0 {
			break
		}
		name, port, _ := strings.Cut(text[open+1:open+end], ":")
		h := l.Host(name)
		if h == nil || h.Port(port) == nil || open > 0 && text[open-1] == '$' {
			b.WriteString(text[:open+1])
			text = text[open+1:]
			continue
		}
		b.WriteString(text[:open] + h.Port(port).Address.Addr().String())
		text = text[open+end+1:]
	}
	b.WriteString(text)
	return b.String()
}
