package show

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// gap is the space between columns.
const gap = "  "

// column is one column of a table.
type column struct {
	title string
	// least is how far the column may shrink in a narrow terminal; zero for a
	// column that keeps its width.
	least int
	// right aligns numbers.
	right bool
	// reserve is the width that rows to come may need.
	reserve int
}

// cell is a text and how it looks.
type cell struct {
	text  string
	style ansi.Style
}

// grid is a table whose columns have their widths.
type grid struct {
	columns []column
	widths  []int
	// bounded is true if what does not fit must be shortened.
	bounded bool
}

// layout gives each column the width of its widest cell, and then takes away
// from those that may shrink, the widest first, until the table fits. Zero
// total is no limit.
func layout(columns []column, rows [][]cell, total int) grid {
	g := grid{columns: columns, widths: make([]int, len(columns)), bounded: total > 0}
	for i, c := range columns {
		g.widths[i] = max(widthOf(c.title), c.reserve)
		for _, row := range rows {
			g.widths[i] = max(g.widths[i], widthOf(row[i].text))
		}
	}
	for total > 0 && g.width() > total {
		widest := -1
		for i, c := range columns {
			if c.least > 0 && g.widths[i] > c.least && (widest < 0 || g.widths[i] > g.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // the terminal wraps or cuts
		}
		g.widths[widest]--
	}
	return g
}

// stretch widens the columns that may shrink until the table is total wide,
// for rows that are still to come.
func (g grid) stretch(total int) grid {
	g.widths = slices.Clone(g.widths)
	for g.width() < total {
		narrowest := -1
		for i, c := range g.columns {
			if c.least > 0 && (narrowest < 0 || g.widths[i] < g.widths[narrowest]) {
				narrowest = i
			}
		}
		if narrowest < 0 {
			break
		}
		g.widths[narrowest]++
	}
	return g
}

func (g grid) width() int {
	total := len(gap) * (len(g.widths) - 1)
	for _, w := range g.widths {
		total += w
	}
	return total
}

func (g grid) header() string {
	row := make([]cell, len(g.columns))
	for i, c := range g.columns {
		row[i] = cell{c.title, styleHead}
	}
	return g.row(row)
}

// text returns the header and the rows.
func (g grid) text(rows [][]cell) string {
	var b strings.Builder
	b.WriteString(g.header())
	for _, r := range rows {
		b.WriteString(g.row(r))
	}
	return b.String()
}

// row returns one line.
func (g grid) row(cells []cell) string {
	var b strings.Builder
	for i, c := range cells {
		if i > 0 {
			b.WriteString(gap)
		}
		text := c.text
		if g.bounded && g.columns[i].least > 0 { // the others would lose digits
			text = shorten(text, g.widths[i])
		}
		pad := strings.Repeat(" ", max(g.widths[i]-widthOf(text), 0))
		if c.style != nil {
			text = c.style.Styled(text)
		}
		switch {
		case g.columns[i].right:
			b.WriteString(pad + text)
		case i == len(cells)-1: // no blanks at the end of a line
			b.WriteString(text)
		default:
			b.WriteString(text + pad)
		}
	}
	b.WriteString("\n")
	return b.String()
}
