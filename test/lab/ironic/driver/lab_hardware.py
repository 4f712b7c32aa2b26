"""The hardware type "lab": machines that are reached over the BMC protocol of the lab.

A machine of the lab is a set of namespaces with a disk, a power button and a slot for media. Everything that touches
the machine is one HTTP call to its BMC; everything else (states, locks, steps, cleaning, adoption) is Ironic's own.

There is no ramdisk and no agent. What an agent would do inside the machine, the BMC does from outside while the
machine is off: write an image, wipe the disk, report the hardware. So a deployment never waits for a callback, and a
node whose disable_power_off is set can neither be deployed nor cleaned.
"""

import os
import tempfile
import time
from urllib import parse

from oslo_config import cfg
from oslo_log import log
import requests

from ironic.common import checksum_utils
from ironic.common import exception
from ironic.common import image_service
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.conf import CONF
from ironic.drivers import base
from ironic.drivers import generic
from ironic.drivers.modules import fake
from ironic.drivers.modules import inspect_utils
from ironic.drivers.modules import noop
from ironic.drivers.modules import noop_mgmt

LOG = log.getLogger(__name__)

CONF.register_opts([
    cfg.IntOpt('bmc_timeout', default=60, min=1,
               help='Seconds that a BMC has to answer a request.'),
    cfg.IntOpt('deploy_seconds', default=0, min=0,
               help='Seconds that writing an image takes at least.'),
], group='lab')

CONNECT_TIMEOUT = 5
"""Seconds that a BMC has to accept a connection."""

MAX_REASON = 300
"""Characters of a BMC's answer that an error repeats."""

PROPERTIES = {
    'lab_address': 'http(s) URL of the machine at its BMC. Required.',
    'lab_username': 'User name at the BMC. Required.',
    'lab_password': 'Password at the BMC. Required.',
}

POWER_STATES = {'on': states.POWER_ON, 'off': states.POWER_OFF}

POWER_COMMANDS = {
    states.POWER_ON: 'on',
    states.POWER_OFF: 'off',
    states.REBOOT: 'reboot',
    states.SOFT_POWER_OFF: 'soft-off',
    states.SOFT_REBOOT: 'soft-reboot',
}

ALGORITHM_OF_LENGTH = {32: 'md5', 64: 'sha256', 128: 'sha512'}


class LabBMCError(exception.IronicException):
    _msg_fmt = 'BMC %(address)s: %(request)s failed: %(reason)s'


def bmc_settings(node):
    """Return the address, user name and password of a node's BMC, or raise what is wrong with them."""
    missing = [name for name in sorted(PROPERTIES) if not node.driver_info.get(name)]
    if missing:
        raise exception.MissingParameterValue('driver_info lacks %s' % ', '.join(missing))
    address = node.driver_info['lab_address'].rstrip('/')
    parts = parse.urlsplit(address)
    if parts.scheme not in ('http', 'https') or not parts.hostname:
        raise exception.InvalidParameterValue('lab_address must be an http or https URL, but is %s' % address)
    if parts.username or parts.password:
        raise exception.InvalidParameterValue(
            'lab_address must not hold credentials: use lab_username and lab_password')
    return address, node.driver_info['lab_username'], node.driver_info['lab_password']


def call_bmc(node, method, path, timeout=None, **content):
    """Send one request to a node's BMC and return the answer. The password is in no error."""
    address, username, password = bmc_settings(node)

    def fail(reason):
        raise LabBMCError(address=address, request='%s %s' % (method, path), reason=reason)

    try:
        response = requests.request(method, address + path, auth=(username, password),
                                    timeout=(CONNECT_TIMEOUT, timeout or CONF.lab.bmc_timeout), **content)
    except requests.RequestException as error:
        fail('no answer: %s' % error)
    if response.status_code == requests.codes.unauthorized:
        fail('the user name %s or its password is wrong (401)' % username)
    if not response.ok:
        fail('%s %s' % (response.status_code, response.text[:MAX_REASON].strip()))
    return response


def read_json(node, path):
    """Read a JSON object from a node's BMC."""
    try:
        value = call_bmc(node, 'GET', path).json()
    except requests.exceptions.JSONDecodeError as error:
        raise exception.IronicException('the BMC answered GET %s without JSON: %s' % (path, error))
    if not isinstance(value, dict):
        raise exception.IronicException('the BMC answered GET %s without a JSON object' % path)
    return value


def power_off(task):
    """Cut the power, because no operating system may run while the BMC works on the disk."""
    if task.node.disable_power_off:
        raise exception.IronicException(
            'disable_power_off is set, but the disk of a lab machine can only be written while its power is off')
    conductor_utils.node_power_action(task, states.POWER_OFF)


class LabPower(base.PowerInterface):
    """Power by the BMC. A request returns when the BMC says that the state is reached."""

    def get_properties(self):
        return PROPERTIES

    def validate(self, task):
        bmc_settings(task.node)

    def get_supported_power_states(self, task):
        return list(POWER_COMMANDS)

    def get_power_state(self, task):
        power = read_json(task.node, '/power').get('power')
        if power not in POWER_STATES:
            raise exception.IronicException('the BMC reports the unknown power state %s' % power)
        return POWER_STATES[power]

    def set_power_state(self, task, power_state, timeout=None):
        command = POWER_COMMANDS.get(power_state)
        if command is None:
            raise exception.InvalidParameterValue('unknown power state %s' % power_state)
        if command.startswith('soft'):
            timeout = timeout or CONF.conductor.soft_power_off_timeout
        call_bmc(task.node, 'PUT', '/power', timeout=timeout, json={'power': command})

    def reboot(self, task, timeout=None):
        # Ironic's reboot of a machine that is off means: switch it on.
        is_off = self.get_power_state(task) == states.POWER_OFF
        self.set_power_state(task, states.POWER_ON if is_off else states.REBOOT, timeout=timeout)


class LabInspect(base.InspectInterface):
    """Inspection from outside: the BMC knows the hardware, so the machine keeps its power state."""

    def get_properties(self):
        return PROPERTIES

    def validate(self, task):
        bmc_settings(task.node)

    def inspect_hardware(self, task):
        data = read_json(task.node, '/inventory')
        inventory = data.get('inventory')
        if not isinstance(inventory, dict):
            raise exception.HardwareInspectionFailure(error='the BMC reports no inventory')
        if not task.ports:
            macs = [nic['mac_address'] for nic in inventory.get('interfaces', []) if nic.get('mac_address')]
            inspect_utils.create_ports_if_not_exist(task, macs)
        task.node.properties = dict(task.node.properties, **self._properties(inventory))
        task.node.save()
        inspect_utils.store_inspection_data(task.node, inventory, data.get('plugin_data') or {}, task.context)
        return states.MANAGEABLE

    @staticmethod
    def _properties(inventory):
        properties = {
            'cpu_arch': inventory.get('cpu', {}).get('architecture'),
            'cpus': inventory.get('cpu', {}).get('count'),
            'memory_mb': inventory.get('memory', {}).get('physical_mb'),
        }
        disks = inventory.get('disks') or []
        if disks:
            properties['local_gb'] = disks[0].get('size', 0) // 2 ** 30
        return {name: str(value) for name, value in properties.items() if value}


class LabDeploy(base.DeployInterface):
    """Deployment from outside: check the image, write it with the machine off, put the config drive in, switch on."""

    def get_properties(self):
        return PROPERTIES

    def validate(self, task):
        bmc_settings(task.node)
        info = task.node.instance_info
        if not info.get('image_source'):
            raise exception.MissingParameterValue('instance_info lacks image_source')
        if not (info.get('image_os_hash_value') or info.get('image_checksum')):
            raise exception.MissingParameterValue(
                'instance_info lacks a checksum: image_os_hash_value with image_os_hash_algo, or image_checksum')

    def prepare(self, task):
        # Adoption calls this too, for machines that run: nothing may be touched here.
        pass

    @base.deploy_step(priority=100)
    def deploy(self, task):
        started = time.monotonic()
        source = task.node.instance_info['image_source']
        check_image(source, *expected_checksum(task.node.instance_info))
        drive = conductor_utils.get_configdrive_image(task.node)
        if drive and drive.startswith(('http://', 'https://')):
            raise exception.InstanceDeployFailure('a config drive given as a URL is not supported by lab machines')
        power_off(task)
        time.sleep(max(0, CONF.lab.deploy_seconds - (time.monotonic() - started)))
        call_bmc(task.node, 'PUT', '/disk', json={'image': source})
        if drive:
            call_bmc(task.node, 'PUT', '/media', data=drive.encode('ascii'))
        else:
            call_bmc(task.node, 'DELETE', '/media')
        conductor_utils.node_power_action(task, states.POWER_ON)

    def tear_down(self, task):
        if task.node.disable_power_off:
            LOG.warning('Node %s stays on: disable_power_off is set', task.node.uuid)
        else:
            conductor_utils.node_power_action(task, states.POWER_OFF)
        call_bmc(task.node, 'DELETE', '/media')
        return states.DELETED

    def clean_up(self, task):
        pass

    def take_over(self, task):
        pass

    def prepare_cleaning(self, task):
        power_off(task)

    @base.clean_step(priority=10)
    def erase_devices_metadata(self, task):
        """Wipe the disk, so that nothing boots from it."""
        call_bmc(task.node, 'DELETE', '/disk')


def expected_checksum(info):
    """Return the checksum that an image must have and its algorithm; a URL names a file of checksums."""
    checksum = info.get('image_os_hash_value') or info['image_checksum']
    algorithm = info.get('image_os_hash_algo') if info.get('image_os_hash_value') else None
    if checksum_utils.is_checksum_url(checksum):
        checksum = checksum_utils.get_checksum_from_url(checksum, info['image_source'])
    algorithm = algorithm or ALGORITHM_OF_LENGTH.get(len(checksum))
    if not algorithm:
        raise exception.InstanceDeployFailure('cannot tell the algorithm of the checksum %s' % checksum)
    return checksum, algorithm


def check_image(source, expected, algorithm):
    """Download an image and compare its checksum. The BMC downloads it again, as a machine's agent would."""
    with tempfile.TemporaryDirectory(dir=CONF.tempdir) as folder:
        path = os.path.join(folder, 'image')
        with open(path, 'wb') as image:
            image_service.HttpImageService().download(source, image)
        actual = checksum_utils.compute_image_checksum(path, algorithm)
    if actual.lower() != expected.lower():
        raise exception.InstanceDeployFailure(
            'the %s checksum of image %s is %s, but %s was expected' % (algorithm, source, actual, expected))


class LabHardware(generic.GenericHardware):
    """Hardware type of the machines of the lab."""

    @property
    def supported_boot_interfaces(self):
        return [fake.FakeBoot]

    @property
    def supported_deploy_interfaces(self):
        return [LabDeploy]

    @property
    def supported_inspect_interfaces(self):
        return [LabInspect, noop.NoInspect]

    @property
    def supported_management_interfaces(self):
        return [noop_mgmt.NoopManagement]

    @property
    def supported_power_interfaces(self):
        return [LabPower]
