// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that users of Causeway do not build the fuzzer. `.ci/fuzz` passes settings that a manifest
// cannot: flags for coverage and AddressSanitizer that also apply to Causeway's modules, and the path of libFuzzer's
// library in the toolchain.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "causeway-fuzz",
    dependencies: [
        .package(name: "causeway", path: "..")
    ],
    targets: [
        .systemLibrary(name: "CFuzzer", path: "CFuzzer"),
        .executableTarget(
            name: "causeway-fuzz",
            dependencies: [
                "CFuzzer",
                .product(name: "APNs", package: "causeway"),
                .product(name: "CNghttp2", package: "causeway"),
                .product(name: "LiveActivity", package: "causeway"),
                .product(name: "Redis", package: "causeway"),
            ],
            path: ".",
            exclude: ["Cases", "CFuzzer", "Tests"],
            sources: ["Fuzzer", "Targets"],
            swiftSettings: settings
        ),
    ]
)
