/// One outage case: which parts run, which commands are written, what breaks when, and what the promises permit afterwards.
struct OutageCase {
    /// Lower-case letters, digits and hyphens.
    var name: String
    /// What happens, and which times are shortened, for people.
    var summary: String
    var apps = [OutageApp()]
    var workers = OutageWorkers()
    var redis = RedisKind.single
    /// Partitions of the commands topic and of the deferred topic.
    var partitions = 6
    /// Ordered by time, which counts from the first command.
    var troubles: [Trouble] = []
    var bounds = AgeBounds()
    var expectations: [OutageExpectation] = []
    /// How long all phones may take to be right after the last command and the last trouble.
    var patienceMilliseconds: Int64 = 40_000

    /// A push-to-start token for each phone, and a token for each activity that its app has begun.
    var expectedRegistrations: Int {
        apps.reduce(0) { sum, app in
            sum + Set((0..<app.activities).map(app.device)).count + app.activities - app.startedByPush
        }
    }

    /// What follows the end of a lifetime; nil: the policy limits none.
    var afterLifetime: AfterLifetime? {
        guard workers.policy["lifetimeSeconds"] != nil else { return nil }
        return workers.policy["afterLifetime"] == "restart" ? .restart : .end
    }

    /// The losses after which alerts may ring again. Times count from the first command.
    var crashes: [Crash] {
        troubles.compactMap { trouble in
            trouble.forgottenMilliseconds.map {
                Crash(milliseconds: trouble.milliseconds, forgottenMilliseconds: $0)
            }
        }
    }
}

/// The two services of APNs. Each is a separate simulator.
enum ServiceName: String, CaseIterable {
    case sandbox, production
}

/// An app, its phones, and its producer's commands.
struct OutageApp {
    /// Lower-case letters and digits.
    var name = "match"
    var service = ServiceName.sandbox
    var activities = 100
    /// How many activities are begun by a start command. The app begins the others.
    var startedByPush = 0
    var activitiesPerDevice = 1
    /// Time between two commands of one activity.
    var periodMilliseconds: Int64 = 2_000
    /// Time from the first command to the last round, which gives each activity one more command.
    var durationMilliseconds: Int64 = 16_000
    /// Every so many commands of an activity, one has an alert.
    var alertEvery = 4
    /// For every so many activities, one ends with an end command; 0: none.
    var endEvery = 5
    /// How far in the past the commands' timestamps are.
    var ageSeconds: Int64 = 0
    /// The number of the command in each activity that claims to be of the year 2100; nil: none does.
    var futureNumber: UInt64?

    var bundleIdentifier: String { "com.example.\(name)" }

    func activity(_ index: Int) -> String { "\(name)-\(index)" }

    func device(of index: Int) -> String { "\(name)-phone-\(index / activitiesPerDevice)" }
}

/// The workers of a case, all with the same configuration.
struct OutageWorkers {
    /// Several workers need a broker whose groups rebalance. Without such a broker one worker runs instead.
    var count = 1
    var lanes = 2
    /// False: a trouble starts them.
    var startFirst = true
    /// The signing key at the start is one that APNs does not know.
    var beginWithWrongKey = false
    /// Keys of `worker`, of `apns` and of the policy `default`, in addition to those of every case.
    var worker: [String: String] = [:]
    var apns: [String: String] = [:]
    var policy: [String: String] = [:]
    /// Properties of the consumer. The group notices a killed worker after its session.
    var consumer = ["session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"]
    var drainMilliseconds: Int64 = 8_000
}

enum RedisKind {
    case single
    /// A primary (server 0) and its replica (server 1), watched by one Sentinel.
    case sentinel
    case cluster(primaries: Int)
}

/// Something that breaks, or is repaired, at a given time.
struct Trouble {
    enum Kind {
        /// Shares of requests, as for the simulator's `PUT /faults`.
        case faults(ServiceName, [String: Double])
        case repair(ServiceName)
        case freeze(OutagePart)
        case thaw(OutagePart)
        case kill(OutagePart)
        /// Starts a part that was killed or never started. A Redis starts empty.
        case start(OutagePart)
        /// SIGTERM. A worker must end within its drain time, with exit code 0 unless a part is frozen then.
        case stop(OutagePart)
        case flushRedis
        /// The replica gets nothing more from its primary.
        case cutReplication
        case rightKey
        /// Replaces every token of an app's activities. The registrations are held back until `releaseTokens`.
        case rotateTokens(app: String)
        case releaseTokens
    }

    /// Time from the first command.
    var milliseconds: Int64
    var kind: Kind
    /// Alerts that rang within this time before the trouble may ring again; nil: none may.
    var forgottenMilliseconds: Int64?

    init(at milliseconds: Int64, _ kind: Kind, forgetting forgottenMilliseconds: Int64? = nil) {
        self.milliseconds = milliseconds
        self.kind = kind
        self.forgottenMilliseconds = forgottenMilliseconds
    }
}

/// A process of the deployment that a case can break.
enum OutagePart: Equatable {
    case broker
    case redis(Int)
    case service(ServiceName)
    case worker(Int)
}

/// What a case expects besides no losses, nothing old and nothing twice.
enum OutageExpectation {
    /// 99 of 100 pushes of an app are no older than this.
    case freshness99(app: String, milliseconds: Int64)
    /// No command has this outcome.
    case never(String)
    /// This many commands have this outcome.
    case outcome(String, count: Int)
    case invalidations(Int)
    /// No command has two final results.
    case oneResultEach
    /// No activity with a newer state waits longer for an update.
    case silence(milliseconds: Int64)
    /// No record of the commands topic waits longer for its commit, from the poll that first saw it. There is one poll a second.
    case committedWithin(milliseconds: Int64)
    /// The phones of an app get no push at all.
    case noPush(app: String)
    /// From this time on each activity of an app gets at most one push.
    case onePushEach(app: String, sinceMilliseconds: Int64)
}
