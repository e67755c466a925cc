import Foundation
import LiveActivity
import Testing

@Suite("Bodies that are changed")
struct CarriedAlertTests {
    static let alert = #"{"title":"Goal","body":"3:1"}"#

    /// A command, and the same as if its producer had written the alert.
    static let carriers: [(String, String)] = [
        (
            #"{"app":"a","activity":"b","aps":{"event":"end","timestamp":1790000000}}"#,
            #"{"app":"a","activity":"b","aps":{"alert":\#(alert),"event":"end","timestamp":1790000000}}"#
        ),
        (
            #"{"app":"a","activity":"b","aps":{ "timestamp" : 1790000000 , "event":"end"},"payload":{"x":1}}"#,
            #"{"app":"a","activity":"b","aps":{"alert":\#(alert), "timestamp" : 1790000000 , "event":"end"},"payload":{"x":1}}"#
        ),
        (
            #"{"app":"a","activity":"b","aps":{"timestamp":1790000000,"alert":{},"event":"end","stale-date":7}}"#,
            #"{"app":"a","activity":"b","aps":{"timestamp":1790000000,"alert":\#(alert),"event":"end","stale-date":7}}"#
        ),
        (
            #"{"app":"a","activity":"b","aps":{"alert":{"title":"a much longer alert than the other","body":"x"},"timestamp":1790000000,"event":"end"},"payload":{"x":1}}"#,
            #"{"app":"a","activity":"b","aps":{"alert":\#(alert),"timestamp":1790000000,"event":"end"},"payload":{"x":1}}"#
        ),
        (
            #"{"app":"a","activity":"b","payload":{"x":1},"aps":{"timestamp":1790000000,"stale-date":1790000100,"event":"end","\u0061lert":{"sound":"s"}}}"#,
            #"{"app":"a","activity":"b","payload":{"x":1},"aps":{"timestamp":1790000000,"stale-date":1790000100,"event":"end","\u0061lert":\#(alert)}}"#
        ),
    ]

    @Test("carry an alert as if it had been there", arguments: carriers)
    func carried(_ text: String, _ expected: String) throws {
        let record = Record(text)
        let (body, layout) = record.body(try record.command())
        let (written, writtenLayout) = Self.carry(Self.alert, in: body, layout)
        let other = Record(expected)
        let command = try other.command()
        #expect(written == other.body(command).text)
        #expect(writtenLayout == other.body(command).layout)
        #expect(written.withUnsafeBytes { Body.digest($0, writtenLayout) } == other.digest(command))
        #expect((try? JSONSerialization.jsonObject(with: Data(written))) != nil)
    }

    @Test("take a timestamp where it has moved to")
    func timestamp() throws {
        let record = Record(Self.carriers[0].0)
        let (body, layout) = record.body(try record.command())
        var (written, writtenLayout) = Self.carry(Self.alert, in: body, layout)
        written.withUnsafeMutableBytes { Body.setTimestamp(1_790_000_099, in: $0, writtenLayout) }
        #expect(String(decoding: written, as: UTF8.self).contains(#""timestamp":1790000099"#))
    }

    static func carry(
        _ alert: String,
        in body: [UInt8],
        _ layout: Body.Layout
    ) -> (body: [UInt8], layout: Body.Layout) {
        body.withUnsafeBytes { body in
            Array(alert.utf8)
                .withUnsafeBytes { alert in
                    let count = Body.count(body, layout, carryingAlertOf: alert.count)
                    var room = [UInt8](repeating: 0xAA, count: count)
                    let layout = room.withUnsafeMutableBytes { Body.write(body, layout, carrying: alert, into: $0) }
                    return (room, layout)
                }
        }
    }

    static let staleDates: [(String, String)] = [
        (
            #"{"timestamp":1790000000,"stale-date":17,"event":"end"}"#,
            #"{"timestamp":1790000000,                "event":"end"}"#
        ),
        (
            #"{"timestamp":1790000000,"event":"end","stale-date":-1.5e3}"#,
            #"{"timestamp":1790000000,"event":"end"                    }"#
        ),
        (
            #"{ "stale-date" : 17 , "timestamp":1790000000,"event":"end"}"#,
            #"{                     "timestamp":1790000000,"event":"end"}"#
        ),
        (
            "{\"timestamp\":1790000000,\"event\":\"end\"\n,\t\"stale-date\":17\r\n}",
            "{\"timestamp\":1790000000,\"event\":\"end\"\n                 \r\n}"
        ),
        (
            #"{"timestamp":1790000000,"event":"end"}"#,
            #"{"timestamp":1790000000,"event":"end"}"#
        ),
    ]

    @Test("lose their stale date in place, and nothing else", arguments: staleDates)
    func staleDate(_ aps: String, _ expected: String) throws {
        let record = Record(#"{"app":"a","activity":"b","aps":\#(aps),"payload":{"stale-date":5}}"#)
        var (body, layout) = record.body(try record.command())
        body.withUnsafeMutableBytes { Body.removeStaleDate(from: $0, &layout) }
        #expect(String(decoding: body, as: UTF8.self) == #"{"aps":\#(expected),"stale-date":5}"#)
        #expect((try? JSONSerialization.jsonObject(with: Data(body))) != nil)
        #expect(layout.staleDateMember.isAbsent)
    }

    @Test("lose their stale date after they were given an alert")
    func staleDateBehindAnAlert() throws {
        let record = Record(#"{"app":"a","activity":"b","aps":{"timestamp":1790000000,"event":"end","stale-date":1}}"#)
        let (body, layout) = record.body(try record.command())
        var (written, writtenLayout) = Self.carry(Self.alert, in: body, layout)
        written.withUnsafeMutableBytes { Body.removeStaleDate(from: $0, &writtenLayout) }
        #expect(
            String(decoding: written, as: UTF8.self)
                == #"{"aps":{"alert":\#(Self.alert),"timestamp":1790000000,"event":"end"               }}"#
        )
    }
}
