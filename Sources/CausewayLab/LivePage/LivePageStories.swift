import CausewayCommandLine
import Foundation
import HTTP

/// Tells what is known of one phone: the simulator's record of it, and what `causeway inspect` says of its activity.
///
/// Stories are told one after the other on a thread of their own, so at most one process inspects at a time.
final class LivePageStories: @unchecked Sendable {
    /// Questions that wait. More are refused.
    static let questionsMax = 8
    private static let inspectionMilliseconds: Int64 = 10_000
    private static let results = 8

    private let pageState: LivePageState
    /// Guards the questions.
    private let condition = NSCondition()
    private var questions: [(exchange: HTTPExchange, phone: Int)] = []

    init(pageState: LivePageState) {
        self.pageState = pageState
    }

    /// The thread lives as long as the process: the kernel kills children when the thread that started them ends.
    func start() {
        let thread = Thread { [self] in
            while true {
                let (exchange, phone) = next()
                exchange.answer(answer(about: phone))
            }
        }
        thread.name = "page-stories"
        thread.start()
    }

    /// - Returns: a response if there is no room for the question.
    func ask(_ exchange: HTTPExchange, about phone: Int) -> HTTPResponse? {
        condition.withLock {
            guard questions.count < Self.questionsMax else { return .plain(503) }
            questions.append((exchange, phone))
            condition.signal()
            return nil
        }
    }

    private func next() -> (HTTPExchange, Int) {
        condition.withLock {
            while questions.isEmpty { condition.wait() }
            return questions.removeFirst()
        }
    }

    private func answer(about phone: Int) -> HTTPResponse {
        guard let parts = pageState.parts,
            let record = try? ControlClient(port: parts.controlPort).body("GET", "/phone?number=\(phone)")
        else { return .plain(404) }
        var body = Array("{\"phone\":".utf8) + record
        if let inspection = parts.inspection, let subject = PageSubject(of: record) {
            switch Self.inspect(subject, inspection) {
            case .success(let line): body += Array(",\"inspection\":\(line)".utf8)
            case .failure(let error):
                body += Array(",\"inspectionFault\":\(PageFrame.quoted(error.description))".utf8)
            }
        }
        body += Array("}".utf8)
        return HTTPResponse(status: 200, contentType: "application/json", body: body)
    }

    private static func inspect(_ subject: PageSubject, _ inspection: LivePageState.Inspection) -> Result<
        String, LabError
    > {
        Result { () throws(LabError) in
            let child = try ChildProcess(
                name: "inspection",
                command: [
                    inspection.program, "inspect", "--config", inspection.configurationFile, "--json",
                    "--results", String(results), "--app", subject.app, "--", subject.activity,
                ],
                logFile: inspection.logFile,
                output: .pipe
            )
            defer { child.stop(graceMilliseconds: 0) }
            let line = try child.firstLine(milliseconds: inspectionMilliseconds)
            guard (try? JSONSerialization.jsonObject(with: Data(line.utf8))) != nil else {
                throw child.failure("printed an unexpected line")
            }
            return line
        }
    }
}

/// The phone to inspect.
struct PageSubject: Equatable {
    var app: String
    var activity: String

    /// The youngest activity in the simulator's record of a phone; nil if there is none.
    init?(of record: [UInt8]) {
        guard let object = (try? JSONSerialization.jsonObject(with: Data(record))) as? [String: Any],
            let app = object["app"] as? String, let activities = object["activities"] as? [[String: Any]],
            let activity = activities.last?["activity"] as? String
        else { return nil }
        self.app = app
        self.activity = activity
    }
}
