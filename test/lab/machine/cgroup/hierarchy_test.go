package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHierarchiesAreReadFromTheMounts(t *testing.T) {
	known := controllers("#subsys_name\thierarchy\tnum_cgroups\tenabled\n" +
		"cpuset\t3\t1\t1\ncpu\t1\t1\t1\ncpuacct\t2\t1\t1\nmemory\t4\t1\t1\n")
	for name, test := range map[string]struct {
		mounts string
		want   []Hierarchy
	}{
		"version 2 alone": {
			mounts: "24 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n" +
				"35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			want: []Hierarchy{{Mount: "/sys/fs/cgroup", Type: "cgroup2"}},
		},
		"both, as systemd mounts them": {
			mounts: "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
				"32 31 0:29 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate\n" +
				"33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd\n" +
				"34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"35 31 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,clone_children\n",
			want: []Hierarchy{
				{Mount: "/sys/fs/cgroup/unified", Type: "cgroup2"},
				{Mount: "/sys/fs/cgroup/systemd", Type: "cgroup", Options: "none,name=systemd"},
				{Mount: "/sys/fs/cgroup/cpu,cpuacct", Type: "cgroup", Options: "cpu,cpuacct"},
				{Mount: "/sys/fs/cgroup/cpuset", Type: "cgroup", Options: "cpuset"},
			},
		},
		"one hierarchy twice, and one elsewhere": {
			mounts: "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"35 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"36 31 0:33 / /mnt/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
			want: []Hierarchy{{Mount: "/sys/fs/cgroup/memory", Type: "cgroup", Options: "memory"}},
		},
		"none": {mounts: "24 1 0:22 / /sys rw - sysfs sysfs rw\nbroken\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parse(test.mounts, known)); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHierarchyHasTheNamesOfItsControllers(t *testing.T) {
	for options, want := range map[string][]string{
		"":                  nil,
		"cpu,cpuacct":       {"cpu", "cpuacct"},
		"none,name=systemd": {"systemd"},
	} {
		if diff := cmp.Diff(want, Hierarchy{Options: options}.Controllers()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", options, diff)
		}
	}
}
