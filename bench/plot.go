package main

import (
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
		if err == nil && p != nil {
			err = p.Save(plotWidth, plotHeight, filepath.Join(folder, name+".svg"))
		}
		if p == nil {
			_ = os.Remove(filepath.Join(folder, name+".svg")) // of another run
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Typeface, p.Title.Padding = "Liberation", vg.Points(8)
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
		names[len(names)-1-i] = a.Axis.What // the first on top
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

func (e *estimates) add(b bound, y float64) {
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
	g := r.growth()
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

// plotMemory shows what a pending job takes, with either settings.
func (r *report) plotMemory() (*plot.Plot, error) {
	if len(r.Memory) == 0 {
		return nil, nil
	}
	p := newPlot("Memory of a pending job", "bytes of payload", "bytes")
	var names []string
	bytes := map[string]plotter.Values{}
	for _, f := range r.Memory {
		bytes[f.Settings] = append(bytes[f.Settings], f.Pending)
		if f.Settings == "default" {
			names = append(names, fmt.Sprint(f.Payload))
		}
	}
	const width = 24
	for i, settings := range []string{"default", "example"} {
		bars, err := plotter.NewBarChart(bytes[settings], vg.Points(width))
		if err != nil {
			return nil, err
		}
		bars.Color = []color.Color{color.Gray{0x9a}, colours[native.Name]}[i]
		bars.LineStyle.Width = 0
		bars.Offset = vg.Points(width/2 - float64(1-i)*width)
		p.Add(bars)
		p.Legend.Add([]string{"Valkey's settings", exampleConf}[i], bars)
	}
	p.Legend.Left = true
	p.NominalX(names...)
	p.Y.Min = 0
	return p, nil
}
