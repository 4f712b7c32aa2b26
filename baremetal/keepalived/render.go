package keepalived

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
	"time"
)

//go:embed templates/keepalived.conf.tmpl
var source string

var page = template.Must(template.New("keepalived.conf").Option("missingkey=error").Parse(source))

// view is the data of the template.
type view struct {
	Config
	Management bool
	Priority   int
	Interval   string
	Adverts    int
	Instances  []instanceView
}

type instanceView struct {
	Instance
	Name string
}

// Render returns keepalived.conf. The same Config gives the same bytes.
func Render(config Config) ([]byte, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("rendering keepalived.conf: %w", err)
	}
	data := view{
		Config:     config,
		Management: config.Role == Management,
		Priority:   Priority(config.Role, config.Ordinal),
		Interval:   seconds(config.Interval),
		Adverts:    config.Adverts(),
	}
	for _, instance := range config.Instances {
		name := "IRONIC_V6"
		if instance.Address.Addr().Is4() {
			name = "IRONIC_V4"
		}
		data.Instances = append(data.Instances, instanceView{Instance: instance, Name: name})
	}
	var out bytes.Buffer
	if err := page.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("rendering keepalived.conf: %w", err)
	}
	return out.Bytes(), nil
}

// seconds returns an interval with two decimals, the resolution of VRRP.
func seconds(interval time.Duration) string {
	hundredths := interval / advertisementStep
	return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
}
