import Glibc
import HTTP
import Logging
import Reactor

/// Responds to the requests for a worker's four pages, and for `/`, which lists them. Used only on the server's thread.
final class WorkerEndpoints: HTTPRequestHandler, TimerHandler {
    /// The time between two samples of the metrics, from which rates are computed.
    static let sampleIntervalMilliseconds: Int64 = 5_000

    private let metricRegistry: MetricRegistry
    private let host: String
    /// Unowned, because a timer of the loop keeps this object alive: a strong reference would be a cycle.
    private unowned let loop: EventLoop
    private var log: LimitedLog
    private var totalsHistory = TotalsHistory()
    private var processHistory: [(atMilliseconds: Int64, reading: ProcessReading)] = []
    private var startedAtMilliseconds: Int64?

    init(metricRegistry: MetricRegistry, logger: Logger, loop: EventLoop) {
        self.metricRegistry = metricRegistry
        self.loop = loop
        log = LimitedLog(logger: logger, events: metricRegistry.events)
        host = Self.hostName()
        _ = loop.schedule(afterMilliseconds: 0, handler: self, tag: 0)
    }

    func respond(to exchange: HTTPExchange) -> HTTPResponse? {
        let head = exchange.head
        guard head.method == "GET" || head.method == "HEAD" else {
            var response = HTTPResponse.statusOnly(405)
            response.allowedMethods = "GET, HEAD"
            return response
        }
        let nowMilliseconds = loop.nowMilliseconds
        switch head.path {
        case "/metrics": return metricsResponse(nowMilliseconds: nowMilliseconds)
        case "/livez": return Self.response(for: livenessReport(nowMilliseconds: nowMilliseconds))
        case "/readyz": return Self.response(for: readinessReport(nowMilliseconds: nowMilliseconds))
        case "/statusz": return statusResponse(as: StatusFormat(head), nowMilliseconds: nowMilliseconds)
        case "/": return HTTPResponse(status: 200, text: "/metrics\n/livez\n/readyz\n/statusz\n")
        default: return .statusOnly(404)
        }
    }

    func refusal(status: Int) -> HTTPResponse {
        let isWritten = log.log(
            .httpFailed,
            nowMilliseconds: loop.nowMilliseconds,
            wallMilliseconds: loop.wallMilliseconds,
            ["status": "\(status)"]
        )
        if !isWritten { metricRegistry.events.countSuppressedLineOfOtherThread(.httpFailed) }
        return .statusOnly(status)
    }

    func timerFired(tag: UInt64) {
        let nowMilliseconds = loop.nowMilliseconds
        if startedAtMilliseconds == nil { startedAtMilliseconds = nowMilliseconds }
        totalsHistory.append(metricRegistry.totals(nowMilliseconds: nowMilliseconds))
        if processHistory.count == TotalsHistory.samplesMax { processHistory.removeFirst() }
        processHistory.append((nowMilliseconds, .now()))
        _ = loop.schedule(afterMilliseconds: Self.sampleIntervalMilliseconds, handler: self, tag: 0)
    }

    private func uptimeMilliseconds(_ nowMilliseconds: Int64) -> Int64 {
        startedAtMilliseconds.map { max(0, nowMilliseconds - $0) } ?? 0
    }

    private func metricsResponse(nowMilliseconds: Int64) -> HTTPResponse {
        let exposition = Exposition(
            metricRegistry.totals(nowMilliseconds: nowMilliseconds),
            labels: metricRegistry.labels,
            condition: metricRegistry.condition.current,
            processReading: .now()
        )
        return HTTPResponse(status: 200, contentType: Exposition.contentType, text: exposition.text)
    }

    private func livenessReport(nowMilliseconds: Int64) -> HealthReport {
        .liveness(
            iterationAges: metricRegistry.publishedMetrics.map {
                ($0.threadName, $0.iterationAgeMilliseconds(nowMilliseconds: nowMilliseconds))
            },
            uptimeMilliseconds: uptimeMilliseconds(nowMilliseconds)
        )
    }

    private func readinessReport(nowMilliseconds: Int64) -> HealthReport {
        let condition = metricRegistry.condition.current
        return .readiness(
            condition,
            isEveryAppRefused: condition.isEveryAppRefused(labels: metricRegistry.labels),
            uptimeMilliseconds: uptimeMilliseconds(nowMilliseconds)
        )
    }

    private static func response(for report: HealthReport) -> HTTPResponse {
        HTTPResponse(status: report.hasSucceeded ? 200 : 503, text: report.text)
    }

    private func statusResponse(as format: StatusFormat, nowMilliseconds: Int64) -> HTTPResponse {
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        let earlierTotals = totalsHistory.totalsBeforeWindow(nowMilliseconds: nowMilliseconds)
        let builder = StatusBuilder(
            labels: metricRegistry.labels,
            window: MetricWindow(
                currentTotals: metricRegistry.totals(nowMilliseconds: nowMilliseconds),
                earlierTotals: earlierTotals
            ),
            processReading: .now(),
            earlierProcessReading: processHistory.first { $0.atMilliseconds == earlierTotals?.takenAtMilliseconds }?
                .reading,
            condition: metricRegistry.condition.current,
            events: metricRegistry.events.loggedKindSummaries,
            channelPoolStatuses: metricRegistry.channelStatus.poolStatuses,
            wallMilliseconds: Int64(wall.tv_sec) * 1_000 + Int64(wall.tv_nsec) / 1_000_000
        )
        let report = builder.makeReport(host: host, uptimeMilliseconds: uptimeMilliseconds(nowMilliseconds))
        return switch format {
        case .text: HTTPResponse(status: 200, text: StatusText.text(report))
        case .html: HTTPResponse(status: 200, contentType: StatusPage.contentType, text: StatusPage.html(report))
        case .json:
            HTTPResponse(status: 200, contentType: StatusJSON.contentType, text: StatusJSON.json(report))
        }
    }

    private static func hostName() -> String {
        var bytes = [CChar](repeating: 0, count: 256)
        guard gethostname(&bytes, bytes.count - 1) == 0 else { return "?" }
        return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
