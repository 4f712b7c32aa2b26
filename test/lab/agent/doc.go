// Package agent is a deploy agent, which runs in the ramdisk of a machine. It implements the API of
// ironic-python-agent.
//
// A boot is one Run, with one token, one certificate and one list of commands:
//
//  1. It reads its parameters from the medium that the machine booted from: the kernel command line in grub.cfg, and
//     the certificate authority of the API beside it.
//  2. For an inspection it posts the inventory.
//  3. It looks itself up by its hardware address, serves HTTPS on port 9999, and sends heartbeats.
//
// 4. Ironic lists the steps, cleans, writes the image, and powers the machine off.
//
// The package has no kernels, partitions, RAID and firmware. Machine implements the disk.
//
// Source: ironic-python-agent 10.2 (agent.py, api/app.py, extensions), ironic 29 (drivers/modules/agent_client.py,
// agent_base.py, api/controllers/v1/ramdisk.py).
package agent
