package newcomer

import _ "context" // want depguard domain-is-pure
