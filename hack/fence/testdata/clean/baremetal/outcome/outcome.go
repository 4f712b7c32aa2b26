package outcome

import _ "time"
