package controllers_test

import _ "go.uber.org/mock/gomock" // want depguard tests-without-mocks
