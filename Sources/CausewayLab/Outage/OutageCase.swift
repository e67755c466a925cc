/// One outage case: the processes, the commands, the faults with their times, and what the case requires of Causeway.
struct OutageCase {
    /// The case's name, in lower-case letters, digits and hyphens.
    var name: String
    /// Says what happens, and which times are shorter than in production.
    var summary: String
    var apps = [OutageApp()]
    var workers = OutageWorkers()
    var redis = OutageRedisTopology.single
    /// The number of partitions of the commands topic and of the deferred topic.
    var partitionCount = 6
    /// The steps, ordered by time. Times count from the first command.
    var steps: [OutageStep] = []
    var ageLimits = AgeLimits()
    var expectations: [OutageExpectation] = []
    /// How long all phones may take to show the right state after the last command and the last step.
    var recoveryMillisecondsMax: Int64 = 40_000

    /// The number of registrations that a case expects: one push-to-start token for each phone, and one update token
    /// for each activity that an app begins itself.
    var expectedRegistrationCount: Int {
        apps.reduce(0) { sum, app in
            let phoneCount = Set((0..<app.activityCount).map(app.deviceIdentifier)).count
            return sum + phoneCount + app.activityCount - app.pushStartedActivityCount
        }
    }

    /// What must happen after the end of a lifetime; nil: the policy limits no lifetime.
    var afterLifetime: AfterLifetime? {
        guard workers.policySettings["lifetimeSeconds"] != nil else { return nil }
        return workers.policySettings["afterLifetime"] == "restart" ? .restart : .end
    }

    /// The steps of this case that permit alerts to ring again, such as a crash or a loss of data. Times count from the
    /// first command.
    var alertRepeatCauses: [AlertRepeatCause] {
        steps.compactMap { step in
            step.alertRepeatWindowMilliseconds.map {
                AlertRepeatCause(happenedAtMilliseconds: step.dueMilliseconds, alertRepeatWindowMilliseconds: $0)
            }
        }
    }
}

/// The two environments of APNs. Each is a separate simulator.
enum SimulatorEnvironment: String, CaseIterable {
    case sandbox, production
}

/// An app of a case, with its phones and its producer's commands.
struct OutageApp {
    /// The app's name, in lower-case letters and digits.
    var name = "match"
    var environment = SimulatorEnvironment.sandbox
    var activityCount = 100
    /// How many activities begin with a start command. The app begins the others itself.
    var pushStartedActivityCount = 0
    var activitiesPerDevice = 1
    /// The time between two commands of one activity, in milliseconds.
    var commandIntervalMilliseconds: Int64 = 2_000
    /// The time from the first command to the last command of each activity.
    var durationMilliseconds: Int64 = 16_000
    /// One in this many commands of an activity has an alert. Each start has one too.
    var alertEveryNthCommand = 4
    /// One in this many activities ends with an end command; 0: no activity does.
    var endEveryNthActivity = 5
    /// How old the commands' `aps.timestamp` is when they are written.
    var timestampAgeSeconds: Int64 = 0
    /// In each activity, the command with this number has a timestamp in the year 2100; nil: no command has.
    var farFutureTimestampCommandNumber: UInt64?

    var bundleId: String { "com.example.\(name)" }

    func activityIdentifier(_ index: Int) -> String { "\(name)-\(index)" }

    func deviceIdentifier(of index: Int) -> String { "\(name)-phone-\(index / activitiesPerDevice)" }
}

/// The workers of a case, all with the same configuration.
struct OutageWorkers {
    /// The number of workers. With the embedded broker only one runs, because that broker serves one member of a
    /// consumer group.
    var count = 1
    var laneCount = 2
    /// Whether the workers start before the first command. If not, a step of the case starts them.
    var areStartedBeforeCommands = true
    /// Whether the workers begin with a signing key that APNs does not know.
    var beginsWithWrongKey = false
    /// Keys of the sections `worker` and `apns` and of the policy `default`, in addition to those of every case.
    var workerSettings: [String: String] = [:]
    var apnsSettings: [String: String] = [:]
    var policySettings: [String: String] = [:]
    /// Properties of the consumer. The session is short, so that the group soon notices a killed worker.
    var consumerProperties = ["session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"]
    var drainMilliseconds: Int64 = 8_000
}

enum OutageRedisTopology {
    case single
    /// A primary (server 0) and its replica (server 1), monitored by one Sentinel.
    case sentinel
    case cluster(primaryCount: Int)
}

/// A fault or its repair at a given time.
struct OutageStep {
    enum Action {
        /// Sets the shares of requests that fail, as the simulator's `PUT /faults` does.
        case setFaults(SimulatorEnvironment, [String: Double])
        case clearFaults(SimulatorEnvironment)
        case freeze(OutageProcess)
        case thaw(OutageProcess)
        case kill(OutageProcess)
        /// Starts a worker or a server of Redis that does not run. The server starts without data.
        case start(OutageProcess)
        /// Sends SIGTERM to a worker. The worker must end within its drain time and a tolerance, with exit code 0. Any
        /// exit code is allowed if a process of the deployment is frozen at that time.
        case stop(OutageProcess)
        case wipeRedis
        /// Cuts the connection from the primary to its replica.
        case cutReplication
        case installValidKey
        /// Gives new update tokens to the activities that began in the app, not by a start command. Until the step
        /// `resumeRegistrations`, the run copies no registration to Kafka, so workers do not know the new tokens yet.
        case rotateTokens(app: String)
        case resumeRegistrations
    }

    /// When the run carries out the step, counted from the first command.
    var dueMilliseconds: Int64
    var action: Action
    /// An alert may ring again if it rang at most this long before this step. Nil: the step permits no alert to ring
    /// again.
    var alertRepeatWindowMilliseconds: Int64?

    init(at dueMilliseconds: Int64, _ action: Action, alertRepeatWindowMilliseconds: Int64? = nil) {
        self.dueMilliseconds = dueMilliseconds
        self.action = action
        self.alertRepeatWindowMilliseconds = alertRepeatWindowMilliseconds
    }
}

/// A process of the deployment that a case can break.
enum OutageProcess: Equatable {
    case broker
    case redis(Int)
    case simulator(SimulatorEnvironment)
    case worker(Int)
}

/// What a case requires in addition to the general promises: nothing lost, nothing old, nothing twice.
enum OutageExpectation {
    /// Of 100 pushes of an app, 99 take no longer than this from the record until APNs accepts the push.
    case freshnessP99(app: String, milliseconds: Int64)
    /// No command has this outcome.
    case noOutcome(String)
    /// This many commands have this outcome.
    case outcome(String, count: Int)
    case invalidationCount(Int)
    /// No command has two final results. A result is final unless its outcome is `held`: then another may follow.
    case oneFinalResultPerCommand
    /// No activity waits longer than this from a command to the push that brings the command's state or a newer one.
    case noSilenceLongerThan(milliseconds: Int64)
    /// No record of the commands topic waits longer than this for its commit. The run measures once a second. The wait
    /// counts from the first measurement that finds the record in the log.
    case committedWithin(milliseconds: Int64)
    /// APNs accepts no push for an app.
    case noPush(app: String)
    /// After this time, counted from the first command, APNs accepts at most one push for each activity of an app.
    case atMostOnePushPerActivity(app: String, sinceMilliseconds: Int64)
}
