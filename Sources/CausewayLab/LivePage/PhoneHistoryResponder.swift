import CausewayCommandLine
import Foundation
import HTTP

/// Responds to requests about one phone: with the simulator's JSON about the phone, and with the output of `causeway
/// inspect` about the phone's activity. One thread handles the requests in turn, so at most one `causeway inspect`
/// runs.
final class PhoneHistoryResponder: @unchecked Sendable {
    /// The maximum number of requests that wait. Further requests are refused.
    static let requestsMax = 8
    private static let inspectionTimeoutMilliseconds: Int64 = 10_000
    private static let inspectedResultsMax = 8

    private let pageMailbox: LivePageMailbox
    /// Guards `requests`.
    private let condition = NSCondition()
    private var requests: [(exchange: HTTPExchange, phone: Int)] = []

    init(pageMailbox: LivePageMailbox) {
        self.pageMailbox = pageMailbox
    }

    /// Starts the thread, which must live as long as this program: the kernel kills a child when the thread that
    /// started it ends (`ChildProcess`).
    func start() {
        let thread = Thread { [self] in
            while true {
                let (exchange, phone) = takeRequest()
                exchange.respond(makeResponse(about: phone))
            }
        }
        thread.name = "page-history"
        thread.start()
    }

    /// Queues a request about a phone.
    ///
    /// - Returns: a response that refuses the request if the queue is full; else nil.
    func enqueue(_ exchange: HTTPExchange, about phone: Int) -> HTTPResponse? {
        condition.withLock {
            guard requests.count < Self.requestsMax else { return .statusOnly(503) }
            requests.append((exchange, phone))
            condition.signal()
            return nil
        }
    }

    private func takeRequest() -> (exchange: HTTPExchange, phone: Int) {
        condition.withLock {
            while requests.isEmpty { condition.wait() }
            return requests.removeFirst()
        }
    }

    private func makeResponse(about phone: Int) -> HTTPResponse {
        guard let dataSources = pageMailbox.dataSources,
            let phoneJSON = try? LoopbackHTTPClient(port: dataSources.controlPort)
                .requestSuccessfully("GET", "/phone?number=\(phone)")
        else { return .statusOnly(404) }
        var body = Array("{\"phone\":".utf8) + phoneJSON
        if let inspectCommandLine = dataSources.inspectCommandLine, let subject = InspectedActivity(of: phoneJSON) {
            switch Self.inspect(subject, inspectCommandLine) {
            case .success(let line): body += Array(",\"inspection\":\(line)".utf8)
            case .failure(let error):
                body += Array(",\"inspectionFault\":\(PageEventWriter.quoted(error.description))".utf8)
            }
        }
        body += Array("}".utf8)
        return HTTPResponse(status: 200, contentType: "application/json", body: body)
    }

    private static func inspect(_ subject: InspectedActivity, _ inspectCommandLine: LivePageMailbox.InspectCommandLine)
        -> Result<
            String, LabError
        >
    {
        Result { () throws(LabError) in
            let child = try ChildProcess(
                name: "inspection",
                command: [
                    inspectCommandLine.program, "inspect", "--config", inspectCommandLine.configurationFile, "--json",
                    "--results", String(Self.inspectedResultsMax), "--app", subject.app, "--", subject.activity,
                ],
                logFile: inspectCommandLine.standardErrorFile,
                output: .pipe
            )
            defer { child.stop(graceMilliseconds: 0) }
            let line = try child.readFirstLine(timeoutMilliseconds: inspectionTimeoutMilliseconds)
            guard (try? JSONSerialization.jsonObject(with: Data(line.utf8))) != nil else {
                throw child.makeError("printed an unexpected line")
            }
            return line
        }
    }
}

/// The youngest activity on a phone and its app, for `causeway inspect`.
struct InspectedActivity: Equatable {
    var app: String
    var activity: String

    /// Reads the simulator's JSON about a phone. Returns nil if the phone has no activity.
    init?(of phoneJSON: [UInt8]) {
        guard let object = (try? JSONSerialization.jsonObject(with: Data(phoneJSON))) as? [String: Any],
            let app = object["app"] as? String, let activities = object["activities"] as? [[String: Any]],
            let activity = activities.last?["activity"] as? String
        else { return nil }
        self.app = app
        self.activity = activity
    }
}
