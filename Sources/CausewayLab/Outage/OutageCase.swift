/// One case of an outage: what is started, what is played, what is broken when, and what the promises allow afterwards.
struct OutageCase {
    /// Small letters, digits and hyphens.
    var name: String
    /// What happens, and which times are shortened, for people.
    var summary: String
    var apps = [OutageApp()]
    var workers = OutageWorkers()
    var redis = RedisKind.single
    /// Of the commands topic and of the deferred topic.
    var partitions = 6
    /// In their order; times count from the first command.
    var troubles: [Trouble] = []
    var bounds = AgeBounds()
    var expectations: [OutageExpectation] = []
    /// How long after the last command and the last trouble all phones may take to be right.
    var patienceMilliseconds: Int64 = 40_000

    /// A push-to-start token of each phone, and a token of each activity that its app has begun.
    var expectedRegistrations: Int {
        apps.reduce(0) { sum, app in
            sum + Set((0..<app.activities).map(app.device)).count + app.activities - app.startedByPush
        }
    }

    /// The losses after which alerts may ring again, in time from the first command.
    var crashes: [Crash] {
        troubles.compactMap { trouble in
            trouble.forgottenMilliseconds.map {
                Crash(milliseconds: trouble.milliseconds, forgottenMilliseconds: $0)
            }
        }
    }
}

/// The two services of APNs, each a simulator of its own.
enum ServiceName: String, CaseIterable {
    case sandbox, production
}

/// An app, its phones, and what its producer writes.
struct OutageApp {
    /// Small letters and digits.
    var name = "match"
    var service = ServiceName.sandbox
    var activities = 100
    /// How many of them a start command begins; the app begins the others.
    var startedByPush = 0
    var activitiesPerDevice = 1
    /// Between two commands of one activity.
    var periodMilliseconds: Int64 = 2_000
    /// From the first command to the last round, which gives each activity one more command.
    var durationMilliseconds: Int64 = 16_000
    /// Every so many commands of an activity one has an alert.
    var alertEvery = 4
    /// The last command of every so many activities is an end; 0: of none.
    var endEvery = 5
    /// How far back the commands' timestamps lie.
    var ageSeconds: Int64 = 0
    /// The command of each activity with this number claims to be of the year 2100; nil: none does.
    var futureNumber: UInt64?

    var bundleIdentifier: String { "com.example.\(name)" }

    func activity(_ index: Int) -> String { "\(name)-\(index)" }

    func device(of index: Int) -> String { "\(name)-phone-\(index / activitiesPerDevice)" }
}

/// The workers of a case, all with the same configuration.
struct OutageWorkers {
    /// Several need a broker whose groups rebalance; without one there is one worker, in place of each.
    var count = 1
    var lanes = 2
    /// False: a trouble starts them.
    var startFirst = true
    /// The signing key in place at the start is one that APNs does not know.
    var beginWithWrongKey = false
    /// Keys of `worker`, of `apns`, and of the policy `default` beside those that every case has.
    var worker: [String: String] = [:]
    var apns: [String: String] = [:]
    var policy: [String: String] = [:]
    /// Properties of the consumer. A worker that was killed is missed after its session.
    var consumer = ["session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"]
    var drainMilliseconds: Int64 = 8_000
}

enum RedisKind {
    case single
    /// A primary (server 0) and its replica (server 1), watched by one Sentinel.
    case sentinel
    case cluster(primaries: Int)
}

/// Something that is broken, or made whole, at a time.
struct Trouble {
    enum Kind {
        /// Shares of requests, as the simulator's `PUT /faults` takes them.
        case faults(ServiceName, [String: Double])
        case wholeAgain(ServiceName)
        case freeze(OutagePart)
        case thaw(OutagePart)
        case kill(OutagePart)
        /// Starts what was killed or never started; a Redis comes back empty.
        case start(OutagePart)
        /// SIGTERM. A worker must end within its drain; with 0, unless a part is frozen then.
        case stop(OutagePart)
        case flushRedis
        /// The replica gets nothing more from its primary.
        case cutReplication
        case rightKey
        /// Every token of an app's activities gives way to another; the registrations are held back until `releaseTokens`.
        case rotateTokens(app: String)
        case releaseTokens
    }

    /// From the first command.
    var milliseconds: Int64
    var kind: Kind
    /// Alerts that rang so long before it may ring again; nil: none may.
    var forgottenMilliseconds: Int64?

    init(at milliseconds: Int64, _ kind: Kind, forgetting forgottenMilliseconds: Int64? = nil) {
        self.milliseconds = milliseconds
        self.kind = kind
        self.forgottenMilliseconds = forgottenMilliseconds
    }
}

/// A process of the stage that a case may break.
enum OutagePart: Equatable {
    case broker
    case redis(Int)
    case service(ServiceName)
    case worker(Int)
}

/// What a case asks for beside lost, old and twice.
enum OutageExpectation {
    /// 99 of 100 pushes of an app are no older than this.
    case freshness99(app: String, milliseconds: Int64)
    /// No command comes to this outcome.
    case never(String)
    /// So many commands come to this outcome.
    case outcome(String, count: Int)
    case invalidations(Int)
    /// No command has two results that are its last word.
    case oneResultEach
    /// No activity that had a newer state waits longer for an update.
    case silence(milliseconds: Int64)
    /// No record of the commands topic waits longer for its commit, from when a look found it there; there is one a second.
    case committedWithin(milliseconds: Int64)
    /// The phones of an app get no push at all.
    case noPush(app: String)
    /// Each activity of an app gets one push at most from this time on.
    case onePushEach(app: String, sinceMilliseconds: Int64)
}
