import Foundation
import Testbed

typealias JSONObject = [String: Any]

/// The files of an example in `Config/examples`, with their times moved to the present.
struct ExampleFiles {
    static let names = ["ride", "restaurant", "pizza", "trip"]
    /// The time that counts as the present in the files, in seconds since 1970.
    private static let presentSeconds = 1_790_000_000
    /// The beginning of 2001, from which Swift counts dates, in seconds since 1970.
    private static let appleReferenceSeconds = 978_307_200

    let directory: URL
    private let shiftSeconds: Int

    init(_ name: String, nowSeconds: Int = Int(Date().timeIntervalSince1970)) {
        directory = Repository.url("Config/examples/\(name)")
        shiftSeconds = nowSeconds - Self.presentSeconds
    }

    func path(_ file: String) -> String { directory.appendingPathComponent(file).path }

    func object(_ file: String) throws -> JSONObject {
        let value = try JSONSerialization.jsonObject(with: Data(contentsOf: directory.appendingPathComponent(file)))
        guard let object = shiftedToPresent(value) as? JSONObject else { throw ExampleError(file) }
        return object
    }

    /// The records of a file with one record on each line.
    func records(_ file: String) throws -> [JSONObject] {
        let text = try String(contentsOf: directory.appendingPathComponent(file), encoding: .utf8)
        return try text.split(separator: "\n")
            .map { line in
                guard
                    let object = shiftedToPresent(try JSONSerialization.jsonObject(with: Data(line.utf8)))
                        as? JSONObject
                else {
                    throw ExampleError(file)
                }
                return object
            }
    }

    /// Moves the times in a value to the present. A number is a time if it is less than a day from
    /// `presentSeconds` in one of three units: seconds or milliseconds since 1970, or seconds since 2001.
    private func shiftedToPresent(_ value: Any) -> Any {
        switch value {
        case let object as JSONObject: return object.mapValues(shiftedToPresent)
        case let list as [Any]: return list.map(shiftedToPresent)
        case let number as NSNumber:
            let day = 86_400.0
            let seconds = number.doubleValue
            if abs(seconds - Double(Self.presentSeconds)) < day {
                return NSNumber(value: number.intValue + shiftSeconds)
            }
            if abs(seconds / 1_000 - Double(Self.presentSeconds)) < day {
                return NSNumber(value: number.intValue + shiftSeconds * 1_000)
            }
            if abs(seconds - Double(Self.presentSeconds - Self.appleReferenceSeconds)) < day {
                return NSNumber(value: seconds + Double(shiftSeconds))
            }
            return number
        default: return value
        }
    }
}

struct ExampleError: Error {
    var file: String
    init(_ file: String) { self.file = file }
}

/// Whether two JSON values are equal, in any order of keys.
func isSameJSON(_ left: Any?, _ right: Any?) -> Bool {
    switch (left, right) {
    case (let left as NSObject, let right as NSObject): left.isEqual(right)
    case (let left as JSONObject, let right as JSONObject):
        left.count == right.count && left.allSatisfy { key, value in isSameJSON(value, right[key]) }
    case (let left as [Any], let right as [Any]):
        left.count == right.count && zip(left, right).allSatisfy { isSameJSON($0, $1) }
    case (let left as String, let right as String): left == right
    default: left == nil && right == nil
    }
}
