import Glibc
import HTTP
import Logging
import Reactor

/// The four pages of a worker. Used only on the server's thread.
final class WorkerPages: HTTPRequestHandler, TimerHandler {
    /// The time between two samples of the metrics. Rates are computed from the samples.
    static let sampleMilliseconds: Int64 = 5_000

    private let registry: MetricRegistry
    private let host: String
    /// Unowned, to avoid a reference cycle: the loop's timer owns these pages.
    private unowned let loop: EventLoop
    private var log: KindLog
    private var history = TotalsHistory()
    private var processHistory: [(milliseconds: Int64, reading: ProcessReading)] = []
    private var startedAtMilliseconds: Int64?

    init(registry: MetricRegistry, logger: Logger, loop: EventLoop) {
        self.registry = registry
        self.loop = loop
        log = KindLog(logger: logger, events: registry.events)
        host = Self.hostName()
        _ = loop.schedule(afterMilliseconds: 0, handler: self, tag: 0)
    }

    func answer(_ exchange: HTTPExchange) -> HTTPResponse? {
        let head = exchange.head
        guard head.method == "GET" || head.method == "HEAD" else {
            var response = HTTPResponse.plain(405)
            response.allow = "GET, HEAD"
            return response
        }
        let nowMilliseconds = loop.nowMilliseconds
        switch head.path {
        case "/metrics": return metrics(nowMilliseconds: nowMilliseconds)
        case "/livez": return Self.answer(live(nowMilliseconds: nowMilliseconds))
        case "/readyz": return Self.answer(ready(nowMilliseconds: nowMilliseconds))
        case "/statusz": return status(as: StatusForm(head), nowMilliseconds: nowMilliseconds)
        case "/": return HTTPResponse(status: 200, text: "/metrics\n/livez\n/readyz\n/statusz\n")
        default: return .plain(404)
        }
    }

    func refusal(status: Int) -> HTTPResponse {
        let isWritten = log.log(
            .httpFailed,
            nowMilliseconds: loop.nowMilliseconds,
            wallMilliseconds: loop.wallMilliseconds,
            ["status": "\(status)"]
        )
        if !isWritten { registry.events.countSuppressed(.httpFailed) }
        return .plain(status)
    }

    func timerFired(tag: UInt64) {
        let nowMilliseconds = loop.nowMilliseconds
        if startedAtMilliseconds == nil { startedAtMilliseconds = nowMilliseconds }
        history.append(registry.totals(nowMilliseconds: nowMilliseconds))
        if processHistory.count == TotalsHistory.samplesMax { processHistory.removeFirst() }
        processHistory.append((nowMilliseconds, .now()))
        _ = loop.schedule(afterMilliseconds: Self.sampleMilliseconds, handler: self, tag: 0)
    }

    private func uptimeMilliseconds(_ now: Int64) -> Int64 { startedAtMilliseconds.map { max(0, now - $0) } ?? 0 }

    private func metrics(nowMilliseconds: Int64) -> HTTPResponse {
        let exposition = Exposition(
            registry.totals(nowMilliseconds: nowMilliseconds),
            labels: registry.labels,
            condition: registry.condition.now,
            process: .now()
        )
        return HTTPResponse(status: 200, contentType: Exposition.contentType, text: exposition.text)
    }

    private func live(nowMilliseconds: Int64) -> HealthReport {
        .live(
            silences: registry.threads.map { ($0.thread, $0.silenceMilliseconds(nowMilliseconds: nowMilliseconds)) },
            uptimeMilliseconds: uptimeMilliseconds(nowMilliseconds)
        )
    }

    private func ready(nowMilliseconds: Int64) -> HealthReport {
        let condition = registry.condition.now
        return .ready(
            condition,
            isEveryKeyRefused: condition.isEveryKeyRefused(of: registry.labels),
            uptimeMilliseconds: uptimeMilliseconds(nowMilliseconds)
        )
    }

    private static func answer(_ report: HealthReport) -> HTTPResponse {
        HTTPResponse(status: report.isPassed ? 200 : 503, text: report.text)
    }

    private func status(as form: StatusForm, nowMilliseconds: Int64) -> HTTPResponse {
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        let before = history.before(nowMilliseconds: nowMilliseconds)
        let builder = StatusBuilder(
            labels: registry.labels,
            window: MetricWindow(now: registry.totals(nowMilliseconds: nowMilliseconds), before: before),
            process: .now(),
            processBefore: processHistory.first { $0.milliseconds == before?.takenAtMilliseconds }?.reading,
            condition: registry.condition.now,
            events: registry.events.happened,
            channelCounts: registry.channels.now,
            wallMilliseconds: Int64(wall.tv_sec) * 1_000 + Int64(wall.tv_nsec) / 1_000_000
        )
        let report = builder.report(host: host, uptimeMilliseconds: uptimeMilliseconds(nowMilliseconds))
        return switch form {
        case .text: HTTPResponse(status: 200, text: StatusText.text(report))
        case .html: HTTPResponse(status: 200, contentType: StatusPage.contentType, text: StatusPage.html(report))
        case .json:
            HTTPResponse(status: 200, contentType: StatusDocument.contentType, text: StatusDocument.json(report))
        }
    }

    private static func hostName() -> String {
        var bytes = [CChar](repeating: 0, count: 256)
        guard gethostname(&bytes, bytes.count - 1) == 0 else { return "?" }
        return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
