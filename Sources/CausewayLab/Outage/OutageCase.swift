/// One outage case: which parts run, which commands are written, what breaks when, and what the promises permit
/// afterwards.
struct OutageCase {
    /// The case's name, in lower-case letters, digits and hyphens.
    var name: String
    /// A text that says what happens and which times are shortened.
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

    /// The number of registrations that a case expects: a push-to-start token for each phone, and an update
    /// token for each activity that its app has begun.
    var expectedRegistrationCount: Int {
        apps.reduce(0) { sum, app in
            sum + Set((0..<app.activityCount).map(app.device)).count + app.activityCount - app.pushStartedActivityCount
        }
    }

    /// What must happen after the end of a lifetime; nil: the policy limits no lifetime.
    var afterLifetime: AfterLifetime? {
        guard workers.policySettings["lifetimeSeconds"] != nil else { return nil }
        return workers.policySettings["afterLifetime"] == "restart" ? .restart : .end
    }

    /// The steps after which alerts may ring again: crashes, losses of data, and stops without a complete drain. Times
    /// count from the first command.
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
    /// How many of the activities begin with a start command of their own. The app begins the others.
    var pushStartedActivityCount = 0
    var activitiesPerDevice = 1
    /// The time between two commands of one activity, in milliseconds.
    var commandIntervalMilliseconds: Int64 = 2_000
    /// The time from the first command until each activity gets its last command.
    var durationMilliseconds: Int64 = 16_000
    /// One in this many commands of an activity has an alert. Each start has one too.
    var commandsPerAlert = 4
    /// One in this many activities ends with an end command; 0: none.
    var activitiesPerEnd = 5
    /// How far in the past the commands' timestamps are.
    var timestampAgeSeconds: Int64 = 0
    /// In each activity, the command with this number has a timestamp in the year 2100; nil: no command has.
    var farFutureTimestampCommandNumber: UInt64?

    var bundleIdentifier: String { "com.example.\(name)" }

    func activity(_ index: Int) -> String { "\(name)-\(index)" }

    func device(of index: Int) -> String { "\(name)-phone-\(index / activitiesPerDevice)" }
}

/// The workers of a case, all with the same configuration.
struct OutageWorkers {
    /// The number of workers. With the embedded broker only one worker runs, because this broker serves only
    /// one member of a consumer group.
    var count = 1
    var laneCount = 2
    /// Whether the workers start before the first command. If not, a step starts them.
    var areStartedBeforeCommands = true
    /// Whether the workers begin with a signing key that APNs does not know.
    var beginsWithWrongKey = false
    /// Keys of the sections `worker` and `apns` and of the policy `default`, in addition to those of every
    /// case.
    var workerSettings: [String: String] = [:]
    var apnsSettings: [String: String] = [:]
    var policySettings: [String: String] = [:]
    /// Properties of the consumer. The short session lets the group notice a killed worker soon.
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
        /// Starts a worker or a Redis that does not run. A Redis starts without data.
        case start(OutageProcess)
        /// Sends SIGTERM to a worker. The worker must end within its drain time and a tolerance, with exit code 0. But
        /// if any process of the deployment is frozen when the worker gets SIGTERM, any exit code is allowed.
        case stop(OutageProcess)
        case flushRedis
        /// Cuts the connection from the primary to its replica.
        case cutReplication
        case installValidKey
        /// Gives new update tokens to all activities that an app itself began. The run copies the registrations of
        /// these tokens to Kafka only after `resumeRegistrations`.
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

/// A requirement of a case in addition to the general ones: nothing lost, nothing old, nothing twice.
enum OutageExpectation {
    /// 99 of 100 pushes of an app take no longer than this, from the record until APNs accepts the push.
    case freshnessP99(app: String, milliseconds: Int64)
    /// No command has this outcome.
    case noOutcome(String)
    /// This many commands have this outcome.
    case outcome(String, count: Int)
    case invalidationCount(Int)
    /// No command has two final results.
    case oneFinalResultPerCommand
    /// No activity waits longer than this for a push with a newer state.
    case noSilenceLongerThan(milliseconds: Int64)
    /// No record of the commands topic waits longer than this for its commit. The wait counts from the poll
    /// that first saw the record; there is one poll a second.
    case committedWithin(milliseconds: Int64)
    /// APNs accepts no push for an app.
    case noPush(app: String)
    /// From this time on, APNs accepts at most one push for each activity of an app. The time counts from the first
    /// command.
    case atMostOnePushPerActivity(app: String, sinceMilliseconds: Int64)
}
