package agent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/agent"
)

func TestParameters(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		medium map[string]string
		want   agent.Parameters
		err    string
	}{
		"deployment": {
			reason: "written by Ironic 29",
			medium: map[string]string{
				"EFI/BOOT/grub.cfg": "set default=0\nset timeout=5\n\nmenuentry \"boot_partition\" {\n    linux /vmlinuz nofb " +
					"ipa-insecure=1 ipa-agent-token=T ipa-api-url=https://172.22.0.2:6385/ boot_method=vmedia ir_pub_id=1-2 --\n" +
					"    initrd /initrd\n}\n",
			},
			want: agent.Parameters{API: "https://172.22.0.2:6385", Token: "T", Insecure: true},
		},
		"inspection": {
			reason: "no API is named, and the certificate authority is on the medium",
			medium: map[string]string{
				"EFI/centos/grub.cfg":                "linuxefi /vmlinuz ipa-inspection-callback-url=https://a/v1/continue_inspection --",
				"etc/ironic-python-agent/ironic.crt": "PEM",
			},
			want: agent.Parameters{Inspection: "https://a/v1/continue_inspection", Authority: []byte("PEM")},
		},
		"no command line": {
			reason: "any other medium", medium: map[string]string{"user_data": ""}, err: "Ironic did not build it",
		},
		"nothing to do": {
			reason: "an agent without an address", medium: map[string]string{"EFI/BOOT/grub.cfg": "linux /vmlinuz nofb --"},
			err: "neither ipa-api-url nor ipa-inspection-callback-url",
		},
	} {
		t.Run(name, func(t *testing.T) {
			medium := map[string][]byte{}
			for file, content := range test.medium {
				medium[file] = []byte(content)
			}
			got, err := agent.ReadParameters(medium)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Fatalf("%s: got error %v, want %q", test.reason, err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}
