package hostdata_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

func TestAnswers(t *testing.T) {
	owner := func(kind string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: "machine", UID: uid}
	}
	claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "machine", UID: "claim", OwnerReferences: []metav1.OwnerReference{owner("Metal3Machine", "machine")},
	}}
	deleting := ptr.To(metav1.NewTime(time.Unix(1, 0)))
	for name, tc := range map[string]struct {
		reason  string
		claim   string
		owners  []metav1.OwnerReference
		deleted *metav1.Time
		want    bool
	}{
		"Own":             {"", "machine", []metav1.OwnerReference{owner("Metal3DataClaim", "claim")}, nil, true},
		"OwnDeleting":     {"", "machine", []metav1.OwnerReference{owner("Metal3DataClaim", "claim")}, deleting, true},
		"OtherName":       {"", "other", []metav1.OwnerReference{owner("Metal3DataClaim", "claim")}, nil, false},
		"NoOwner":         {"The garbage collector removed the owner.", "machine", nil, nil, true},
		"Earlier":         {"Another machine had the name.", "machine", []metav1.OwnerReference{owner("Metal3DataClaim", "earlier"), owner("Metal3Machine", "earlier")}, nil, false},
		"Forced":          {"The claim was removed by force.", "machine", []metav1.OwnerReference{owner("Metal3DataClaim", "earlier"), owner("Metal3Machine", "machine")}, nil, true},
		"EarlierDeleting": {"The machine must not use the data.", "machine", []metav1.OwnerReference{owner("Metal3DataClaim", "earlier"), owner("Metal3Machine", "machine")}, deleting, false},
	} {
		t.Run(name, func(t *testing.T) {
			data := &infrav1.Metal3Data{
				ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, DeletionTimestamp: tc.deleted},
				Spec:       infrav1.Metal3DataSpec{Claim: &infrav1.Metal3ObjectRef{Name: tc.claim}},
			}
			if got := hostdata.Answers(claim, data); got != tc.want {
				t.Errorf("%s got %t", tc.reason, got)
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	data := func(name string, index int32, edits ...func(*infrav1.Metal3Data)) *infrav1.Metal3Data {
		d := &infrav1.Metal3Data{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.Metal3DataSpec{Index: &index}}
		for _, edit := range edits {
			edit(d)
		}
		return d
	}
	ready := func(d *infrav1.Metal3Data) { d.Status.Ready = ptr.To(true) }
	deleting := func(d *infrav1.Metal3Data) { d.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0))) }
	cases := map[string]struct {
		recorded string
		found    []*infrav1.Metal3Data
		want     []string
	}{
		"none":                          {},
		"one":                           {found: []*infrav1.Metal3Data{data("t-3", 3)}, want: []string{"t-3"}},
		"one that is being deleted":     {found: []*infrav1.Metal3Data{data("t-3", 3, deleting)}, want: []string{"t-3"}},
		"the lowest index":              {found: []*infrav1.Metal3Data{data("t-10", 10), data("t-9", 9)}, want: []string{"t-9", "t-10"}},
		"the recorded one":              {recorded: "t-2", found: []*infrav1.Metal3Data{data("t-1", 1), data("t-2", 2)}, want: []string{"t-2", "t-1"}},
		"not one that is being deleted": {recorded: "t-1", found: []*infrav1.Metal3Data{data("t-1", 1, deleting), data("t-2", 2)}, want: []string{"t-2", "t-1"}},
		"the rendered one, even if it is being deleted": {
			recorded: "t-1", found: []*infrav1.Metal3Data{data("t-1", 1), data("t-2", 2, ready, deleting)}, want: []string{"t-2", "t-1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := &infrav1.Metal3DataClaim{}
			if tc.recorded != "" {
				claim.Status.RenderedData = &infrav1.Metal3ObjectRef{Name: tc.recorded}
			}
			var got []string
			answer, leftOver := hostdata.Answer(claim, tc.found)
			if answer != nil {
				got = append(got, answer.Name)
			}
			for _, d := range leftOver {
				got = append(got, d.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if got := hostdata.Name("template", 7); got != "template-7" {
		t.Errorf("the Metal3Data with index 7 is named %s", got)
	}
}
