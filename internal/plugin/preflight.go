package plugin

import (
	"context"

	"github.com/spf13/pflag"
)

// preflight is what a person is told before a move.
type preflight struct {
	Namespace string `json:"namespace"`

	// Ready says that clusterctl move would succeed now and lose nothing.
	Ready bool `json:"ready"`

	// Obstacles are what is in the way.
	Obstacles []obstacle `json:"obstacles"`

	// Notes are worth knowing and in nobody's way.
	Notes []string `json:"notes"`

	// Counted is how much was looked at in the source, so that nobody takes an empty namespace for a ready one.
	Counted counts `json:"counted"`
}

// obstacle is one thing that is in the way of a move.
type obstacle struct {
	// Cluster is source or target.
	Cluster string `json:"cluster"`

	// Message names the object, what is wrong with it, and the remedy.
	Message string `json:"message"`
}

// counts are numbers of objects.
type counts struct {
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	Hosts    int `json:"hosts"`
}

func setupPreflight(set *pflag.FlagSet) func(context.Context, Environment) (int, error) {
	var where sides
	var form output
	where.add(set)
	form.add(set)
	return func(ctx context.Context, environment Environment) (int, error) {
		if err := form.check(); err != nil {
			return exitBlind, err
		}
		source, target, err := where.open()
		if err != nil {
			return exitBlind, err
		}
		left, err := source.survey(ctx, where.namespace)
		if err != nil {
			return exitBlind, err
		}
		var entered *scope
		if target != nil {
			if entered, err = target.survey(ctx, where.namespace); err != nil {
				return exitBlind, err
			}
		}
		verdict := judge(left, entered)
		if err := verdict.write(environment.Output, form); err != nil {
			return exitBlind, err
		}
		if !verdict.Ready {
			return exitNotReady, nil
		}
		return exitDone, nil
	}
}

// judge says whether what was seen can be moved. Without a target, only the source is judged.
func judge(source, target *scope) preflight {
	verdict := preflight{
		Namespace: source.namespace, Obstacles: []obstacle{}, Notes: []string{},
		Counted: counts{Clusters: len(source.clusters), Machines: len(source.machines), Hosts: len(source.hosts)},
	}
	add := func(side string, messages []string) {
		for _, message := range messages {
			verdict.Obstacles = append(verdict.Obstacles, obstacle{Cluster: side, Message: message})
		}
	}
	add(sourceSide, departure{source}.obstacles())
	verdict.Notes = append(verdict.Notes, departure{source}.notes()...)
	if target == nil {
		verdict.Notes = append(verdict.Notes, "the target was not looked at: name it with --to-kubeconfig")
	} else {
		arriving := arrival{scope: target, from: source}
		add(targetSide, arriving.obstacles())
		verdict.Notes = append(verdict.Notes, arriving.notes()...)
	}
	verdict.Ready = len(verdict.Obstacles) == 0
	return verdict
}
