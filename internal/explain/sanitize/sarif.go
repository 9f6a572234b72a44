package sanitize

import (
	"net/url"
	"path"
	"strings"
)

// SARIF is a report as tools of code review read it: SARIF 2.1.0 of OASIS. It has what its schema
// requires, and what GitHub shows of it.
type SARIF struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []SARIFRun `json:"runs"`
}

// SARIFRun is the run of one tool.
type SARIFRun struct {
	Tool    SARIFTool     `json:"tool"`
	Results []SARIFResult `json:"results"`
}

// SARIFTool is the tool.
type SARIFTool struct {
	Driver SARIFDriver `json:"driver"`
}

// SARIFDriver is the tool with its checks.
type SARIFDriver struct {
	Name           string      `json:"name"`
	InformationURI string      `json:"informationUri"`
	Version        string      `json:"version,omitempty"`
	Rules          []SARIFRule `json:"rules"`
}

// SARIFRule is a check.
type SARIFRule struct {
	ID                   string       `json:"id"`
	ShortDescription     SARIFMessage `json:"shortDescription"`
	Help                 SARIFMessage `json:"help"`
	DefaultConfiguration SARIFConfig  `json:"defaultConfiguration"`
}

// SARIFConfig is how a check is by default.
type SARIFConfig struct {
	Enabled bool   `json:"enabled"`
	Level   string `json:"level"`
}

// SARIFMessage is a text.
type SARIFMessage struct {
	Text string `json:"text"`
}

// SARIFResult is a finding.
type SARIFResult struct {
	RuleID           string             `json:"ruleId"`
	RuleIndex        int                `json:"ruleIndex"`
	Level            string             `json:"level"`
	Message          SARIFMessage       `json:"message"`
	Locations        []SARIFLocation    `json:"locations"`
	RelatedLocations []SARIFLocation    `json:"relatedLocations,omitempty"`
	Stacks           []SARIFStack       `json:"stacks,omitempty"`
	OccurrenceCount  int                `json:"occurrenceCount"`
	Suppressions     []SARIFSuppression `json:"suppressions,omitempty"`
}

// SARIFSuppression says that a finding should not be shown.
type SARIFSuppression struct {
	Kind string `json:"kind"`
}

// SARIFStack is a stack.
type SARIFStack struct {
	Message SARIFMessage `json:"message"`
	Frames  []SARIFFrame `json:"frames"`
}

// SARIFFrame is a frame of a stack.
type SARIFFrame struct {
	Location SARIFLocation `json:"location"`
	Module   string        `json:"module,omitempty"`
}

// SARIFLocation is a line of a program, or what is known instead.
type SARIFLocation struct {
	ID               int            `json:"id,omitempty"`
	PhysicalLocation *SARIFPhysical `json:"physicalLocation,omitempty"`
	LogicalLocations []SARIFLogical `json:"logicalLocations,omitempty"`
	Message          *SARIFMessage  `json:"message,omitempty"`
}

// SARIFPhysical is a line of a file.
type SARIFPhysical struct {
	ArtifactLocation SARIFArtifact `json:"artifactLocation"`
	Region           *SARIFRegion  `json:"region,omitempty"`
}

// SARIFArtifact is a file.
type SARIFArtifact struct {
	URI       string `json:"uri"`
	URIBaseID string `json:"uriBaseId,omitempty"`
}

// SARIFRegion is a line.
type SARIFRegion struct {
	StartLine int `json:"startLine"`
}

// SARIFLogical is a function.
type SARIFLogical struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

const information = "https://github.com/gorxe/gorxe/blob/main/docs/sanitizer.md"

// SARIF returns the report for code review. Files below root get paths relative to it.
func (r *Report) SARIF(version, root string) *SARIF {
	run := SARIFRun{Tool: SARIFTool{SARIFDriver{Name: "gorxe", InformationURI: information, Version: version}}, Results: []SARIFResult{}}
	index := make(map[string]int)
	for i := range checks {
		c := &checks[i]
		index[c.Name] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, SARIFRule{ID: c.Name, ShortDescription: SARIFMessage{c.What},
			Help: SARIFMessage{"See " + c.See + "."}, DefaultConfiguration: SARIFConfig{!c.Off, string(c.Level)}})
	}
	for i := range r.Findings {
		run.Results = append(run.Results, r.Findings[i].sarif(index[r.Findings[i].Check], root))
	}
	return &SARIF{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []SARIFRun{run}}
}

func (f *Finding) sarif(rule int, root string) SARIFResult {
	x := SARIFResult{RuleID: f.Check, RuleIndex: rule, Level: string(f.Level), Message: SARIFMessage{f.What}, OccurrenceCount: max(f.Count, 1)}
	for i := range f.Places {
		p := &f.Places[i]
		if len(p.Lines) == 0 {
			continue
		}
		stack := SARIFStack{Message: SARIFMessage{p.title()}}
		for j := range p.Lines {
			stack.Frames = append(stack.Frames, SARIFFrame{p.Lines[j].sarif(root), p.Lines[j].Module})
		}
		x.Stacks = append(x.Stacks, stack)
		l := p.line()
		switch {
		case l == nil:
		case x.Locations == nil:
			x.Locations = append(x.Locations, l.sarif(root))
		default:
			at := l.sarif(root)
			at.ID, at.Message = len(x.RelatedLocations)+1, &SARIFMessage{p.title()}
			x.RelatedLocations = append(x.RelatedLocations, at)
		}
	}
	if x.Locations == nil { // without lines, it is about the program
		x.Locations = []SARIFLocation{{PhysicalLocation: &SARIFPhysical{ArtifactLocation: SARIFArtifact{URI: uri(f.Program)}}}}
	}
	if f.Suppressed {
		x.Suppressions = []SARIFSuppression{{"external"}}
	}
	return x
}

func (f *Frame) sarif(root string) (l SARIFLocation) {
	if f.File != "" {
		p := &SARIFPhysical{ArtifactLocation: artifact(f.File, root)}
		if f.Line > 0 {
			p.Region = &SARIFRegion{f.Line}
		}
		l.PhysicalLocation = p
	}
	if f.Function != "" {
		l.LogicalLocations = []SARIFLogical{{f.Function, "function"}}
	}
	return l
}

// artifact names a file.
func artifact(file, root string) SARIFArtifact {
	file = path.Clean(file)
	below, ok := strings.CutPrefix(file, strings.TrimSuffix(path.Clean(root), "/")+"/")
	switch {
	case ok || !path.IsAbs(file):
		return SARIFArtifact{uri(below), "%SRCROOT%"}
	default:
		return SARIFArtifact{URI: "file://" + uri(file)}
	}
}

// uri escapes a path.
func uri(name string) string { return (&url.URL{Path: name}).EscapedPath() }
