package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"emq/bench/stats"
)

// Each executor has one colour in all plots.
var colours = map[string]color.Color{
	scripted.Name: color.RGBA{0xb0, 0x6a, 0x2c, 0xff},
	native.Name:   color.RGBA{0x1f, 0x5f, 0xa8, 0xff},
	floor.Name:    color.RGBA{0x6b, 0x6b, 0x6b, 0xff},
}

const (
	plotWidth  = 7 * vg.Inch
	plotHeight = 4 * vg.Inch
)

// plots draws what was measured, each plot if there is something to show in it.
func (r *report) plots(folder string) error {
	var errs []error
	for name, make := range map[string]func() (*plot.Plot, error){
		"ratio": r.plotRatios, "latency": r.plotLatency, "growth": r.plotGrowth, "memory": r.plotMemory,
	} {
		p, err := make()
		file := filepath.Join(folder, name+".svg")
		if err == nil && p == nil {
			_ = os.Remove(file) // of another run
		} else if err == nil {
			err = save(p, file)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// save leaves room at the right, where the label of the last tick reaches over the edge.
func save(p *plot.Plot, file string) error {
	canvas := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(6), vg.Points(-24), vg.Points(6), vg.Points(-6)))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// The layout is that of this typeface; where a reader lacks it, one of the same measures does.
	const typeface = "font-family:Liberation Sans"
	text := bytes.ReplaceAll(svg.Bytes(), []byte(typeface), []byte(typeface+",Arimo,Helvetica,Arial,sans-serif"))
	return os.WriteFile(file, text, 0o644)
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Variant = "Sans"
	}
	p.Legend.Top = true
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid)
	return p
}

// plotRatios shows, for every axis, a job's server time as a share of what the scripts take.
func (r *report) plotRatios() (*plot.Plot, error) {
	p := newPlot("Server time of a job, as a share of the scripts'", "scripts = 1; median and 95 % bound over the pairs", "")
	names := make([]string, len(r.Axes))
	for i, a := range r.Axes {
		names[len(names)-1-i] = a.Axis.Name // the first on top
	}
	drawn := false
	for s, e := range []*executor{&native, &floor} {
		points := &estimates{}
		for i, a := range r.Axes {
			if b, ok := a.compare(e.Name, scripted.Name, metrics[0]); ok {
				points.add(b, float64(len(names)-1-i)+0.12-0.24*float64(s))
			}
		}
		if len(points.XYs) == 0 {
			continue
		}
		drawn = true
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewXErrorBars(points)
		if err != nil {
			return nil, err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: colours[e.Name], Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
		bars.LineStyle.Color = colours[e.Name]
		p.Add(bars, dots)
		p.Legend.Add(e.Name, dots)
	}
	if !drawn {
		return nil, nil
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, max(1, p.X.Max)
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5
	return p, nil
}

// estimates are points with a bound in x.
type estimates struct {
	plotter.XYs
	plotter.XErrors
}

func (e *estimates) add(b stats.Bound, y float64) {
	e.XYs = append(e.XYs, plotter.XY{X: b.Median, Y: y})
	e.XErrors = append(e.XErrors, struct{ Low, High float64 }{b.Median - b.Low, b.High - b.Median})
}

// plotLatency shows how many of the requests took how long, with many clients.
func (r *report) plotLatency() (*plot.Plot, error) {
	a := r.axis("clients50")
	if a == nil {
		return nil, nil
	}
	p := newPlot("Latency of a request, "+a.Axis.What, "percentile", "µs")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	marks := []float64{0, 50, 90, 99, 99.9, 99.99}
	nines := func(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
	ticks := make(plot.ConstantTicks, len(marks))
	for i, m := range marks {
		ticks[i] = plot.Tick{Value: nines(m), Label: fmt.Sprintf("%g %%", m)}
	}
	p.X.Tick.Marker = ticks
	for _, e := range executors {
		all := hdrhistogram.New(1, int64(1e12), 3)
		for _, l := range a.Legs {
			if l.Executor == e.Name {
				all.Merge(l.latency)
			}
		}
		var points plotter.XYs
		for n := 0.0; n <= nines(marks[len(marks)-1]); n += 0.02 {
			at := all.ValueAtPercentile(100 - 100*math.Pow(10, -n))
			points = append(points, plotter.XY{X: n, Y: max(1, float64(at)/1e3)})
		}
		if all.TotalCount() == 0 {
			continue
		}
		if err := addLine(p, e.Name, points); err != nil {
			return nil, err
		}
	}
	p.Legend.Left = true
	return p, nil
}

// plotGrowth shows what a claim costs as the backlog grows.
func (r *report) plotGrowth() (*plot.Plot, error) {
	g := r.byBacklog()
	if len(g) < 2 {
		return nil, nil
	}
	p := newPlot("Server time of a claim", "pending jobs", "µs")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	for _, e := range executors {
		var points plotter.XYs
		for _, a := range g {
			if m := a.median(e.Name, claimTime); m > 0 {
				points = append(points, plotter.XY{X: float64(a.Axis.Backlog), Y: m})
			}
		}
		if len(points) == 0 {
			continue
		}
		if err := addLine(p, e.Name, points); err != nil {
			return nil, err
		}
	}
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = false, true
	return p, nil
}

func addLine(p *plot.Plot, name string, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.LineStyle.Color, line.LineStyle.Width = colours[name], vg.Points(1.5)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// plotMemory shows what a pending job takes beside its payload, with either settings.
func (r *report) plotMemory() (*plot.Plot, error) {
	if len(r.Memory) == 0 {
		return nil, nil
	}
	p := newPlot("Memory that a pending job takes beside its payload", "bytes of payload", "bytes")
	var names []string
	beside := map[string]plotter.Values{}
	for _, f := range r.Memory {
		beside[f.Settings] = append(beside[f.Settings], f.Pending-float64(f.Payload))
		if f.Settings == "default" {
			names = append(names, fmt.Sprint(f.Payload))
		}
	}
	const width = 24
	for i, settings := range []string{"default", "example"} {
		bars, err := plotter.NewBarChart(beside[settings], vg.Points(width))
		if err != nil {
			return nil, err
		}
		bars.Color = []color.Color{color.Gray{0x9a}, colours[native.Name]}[i]
		bars.LineStyle.Width = 0
		bars.Offset = vg.Points(width/2 - float64(1-i)*width)
		p.Add(bars)
		p.Legend.Add([]string{"Valkey's settings", filepath.Base(exampleConf)}[i], bars)
	}
	p.Legend.Left = true
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.Y.Min = -0.5, float64(len(names))-0.5, 0
	p.Y.Tick.Marker = plot.TickerFunc(wholeTicks)
	return p, nil
}

// wholeTicks are the usual ticks without decimals.
func wholeTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = fmt.Sprintf("%.0f", t.Value)
		}
	}
	return ticks
}
